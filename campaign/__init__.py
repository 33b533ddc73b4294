"""The campaign: hostile files and kills by the thousand, run by `make fuzz`.

    python -m campaign [PART ...] [--minutes M] [--seed S] [--inputs N]

mutations   files of every format that assay reads, altered, each read and watched
kills       studies killed by SIGKILL at random moments, and resumed

`python -m campaign.page` makes docs/results/campaign.md from docs/results/campaign.json.
"""
