// Package retention has the checkpoints of runs: where they are kept, what is known of them
// on the submitting machine, and who may write to their store. It knows runs and stores by
// their records and interfaces. It knows no attempt, and opens no connection to a site.
package retention
