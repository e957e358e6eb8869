// Package gc finds and removes what nobody needs any more: of a run that its user forgets, of
// runs without a record on sites, in stores and on this machine, and it lists what clouds have
// rented and the runs that need a controller. It knows records, sites and stores. It makes no attempt.
package gc
