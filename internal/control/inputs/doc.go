// Package inputs plans what a job's inputs are made of: copies of local files with their places
// on the head's host, binds of those outside of the volume, and what comes in the place of
// links. It knows nothing of runs, attempts or leases.
package inputs
