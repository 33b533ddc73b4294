"""Real attention inputs: captured from a running model, stored, inspected, replayed.

A tensor travels like this. torch/ or jax/ copies it off the model into a CapturedCall and gives it
to a Recording (recording/__init__.py), which decides, counts and queues (captured_call.py). The
writer thread (writer_thread.py) loads it to the host; RecordFiles (record_files.py) decides what
of it is stored, whole or as a delta (deltas.py), and writes the file (tensor_files.py, formats.py);
a line of the manifest (manifest.py) lists it once it is durable. store.py reads it back, inputs.py
makes it a workload, inspect/ shows it, exchange.py carries it to another store.
"""
