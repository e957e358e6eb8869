package core

import "errors"

// HostsEnd is why hosts are gone before their attempt has released them; "": not known.
type HostsEnd string

// Ends of hosts.
const (
	HostsReclaimed  HostsEnd = "reclaimed"   // the site has taken them back
	HostsPoweredOff HostsEnd = "powered_off" // from within, as rented machines do at their expiry
	HostsEnded      HostsEnd = "ended"       // by a call of their account
)

// GoneError is the cause of an error about hosts that are gone.
type GoneError struct {
	End HostsEnd
	Err error
}

func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *GoneError) Unwrap() error { return e.Err }

// HostsEndOf returns why the hosts are gone that an error is about; "": not known.
func HostsEndOf(err error) HostsEnd {
	if e, is := errors.AsType[*GoneError](err); is {
		return e.End
	}
	return ""
}
