"""The benchmarks of the stage `spine`, one file each.

A benchmark has SUBJECTS (the peer first), SIZES and `measure(scratch, **sizes)`.
"""
