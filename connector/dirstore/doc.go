// Package dirstore keeps artifacts in a directory, for a host whose large answers
// do not belong into its database.
//
//	store, err := dirstore.Open("/var/lib/app/artifacts", &dirstore.Options{Seal: keyring})
//	...
//	inv, err := connector.NewInvoker(..., &connector.Options{Artifacts: store, ...})
//
// A host calls [Store.Sweep] at intervals, for instance as a sweep of package
// job; without it, what is over is given to nobody, and takes up room.
//
// # What lies there
//
// Each tenant has a directory, and each artifact two files in it, one with what
// is known about it and one with its bytes, in chunks of 64 KiB that are sealed
// for their place. The first of them is what makes the artifact exist: it is put
// there last, by a rename, after the bytes are on disk, and taken away first.
// What is known about an artifact (tenant, owner, scope, connection) is in clear,
// and whoever can write to the directory can change it. An empty file remains for
// each number that was ever given out, so that no reference is used again.
//
// Several processes may share a directory, on a file system where making a file
// exclusively and renaming one are atomic, as they are on local ones.
//
// # What it does not do
//
// It has no quota, and does not seal anew what an old key has sealed. It follows
// no symbolic link out of its directory.
package dirstore
