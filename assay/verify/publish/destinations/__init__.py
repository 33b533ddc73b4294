"""Places that a bundle can be sent to, one file each; DEST is the file's name, a colon, an address.

`place(address, name)` says where a bundle of a name would come to lie; it refuses an address that
cannot be used and touches nothing. `send(bundle, address, name)` sends it and writes over nothing.
`fetch(address, name, target)` copies what is stored there into a new folder; it returns None, or
the reason why that cannot be read back from here.
"""

CONTRACT = ("place", "send", "fetch")
REQUIRES = ()
