package driver

import "context"

// HostLocks lock the hosts of a site for one study of measurements at a time, among those of
// the same account.
type HostLocks interface {
	// LockHosts locks the hosts of the site that answer. Busy: another study has one of them, which
	// the error names. A study may lock hosts several times.
	LockHosts(ctx context.Context, s Study) (HostLock, error)
}

// Study is what is measured on hosts that no other study may use meanwhile.
type Study struct {
	Name string `json:"name"`
	// Token is the same on all hosts of one study.
	Token string `json:"token"`
	// By names the process that measures, for people.
	By string `json:"by"`
}

// HostLock is a lock on hosts. It ends with this process.
type HostLock struct {
	// Lost reports whether a connection that held it has broken; nil: there is none.
	Lost func() bool
	// Unlock releases it.
	Unlock func()
}
