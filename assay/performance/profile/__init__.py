"""Profile of a call: kernels on a device, operations on a CPU, copies of the inputs."""
