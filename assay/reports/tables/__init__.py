"""Tables of a report, made from records; one file each, chosen by the stages that it names.

`tables(stage, records)` returns the Tables of one of the file's STAGES, given the records of the
whole run. A file that names no stage shows those that no other file names. The tables of a stage
stand in order of PLACE, then by name.
"""

CONTRACT = ("tables",)
STAGES = ()
PLACE = 50
