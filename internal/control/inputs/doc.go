// Package inputs plans what a job's inputs are made of, and sends them to the head's host:
// copies of local files with their places there, binds of those outside of the volume, what
// comes in the place of links, remote inputs, and the image. It knows leases, and nothing of
// runs or attempts.
package inputs
