// Package placement decides where a run continues: the order of its sites, whether a job
// fits a site and its slot, how long before the slot's end its checkpoint is due, and
// whether attempts make progress.
//
// The package is pure: facts and records in, a decision out. It must not know providers,
// the database of runs, or attempts that run.
package placement
