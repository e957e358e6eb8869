package core

import "time"

// Billing is what the price of a host is counted for, beside the time from its grant to its release.
type Billing struct {
	// Boot is how long a host may take to boot that costs from the request for it; 0: it costs from its grant.
	Boot time.Duration `json:"boot,omitempty"`
	// Least is how long a host costs at least.
	Least time.Duration `json:"least,omitempty"`
}
