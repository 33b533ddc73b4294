"""Published sentences and the records that hold them up."""
