"""The campaign: hostile files and kills by the thousand, run by `make fuzz`.

    python -m campaign [PART ...] [--minutes M | --inputs N | --studies N] [--processes P]

mutations       files of every format that assay reads, altered, each read and watched
kills           studies killed by SIGKILL at random moments, and resumed
torch_kills     the same with torch: bench, models, and a training that streams
disks           studies whose disk is full at random moments
clocks          studies whose wall clock is set forwards and backwards
plugins         studies whose plugins hang, exit, fork, eat memory, or lie

`python -m campaign.page` makes docs/results/campaign.md from docs/results/campaign.json.
"""
