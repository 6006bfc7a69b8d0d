package mutants

// writeMutants are those of connectortest/internal/writes.
var writeMutants = []Mutant{}
