package core

import (
	"context"
	"errors"
	"strings"
)

// Kind says what a caller can do about an error.
type Kind int

const (
	// Permanent: trying again will not help. The kind of any plain error.
	Permanent Kind = iota
	// NotFound: the thing is not there. For a destroy, that is success.
	NotFound
	// Busy: another process or run holds it.
	Busy
	// Unsupported: this host, site or build cannot do it.
	Unsupported
	// Transient: trying again later may help. Anyone who knows what that
	// costs does so, and never the driver that reports it (ADR 31).
	Transient
	// Invalid: what the user gave is wrong.
	Invalid
	// Lost: a host, node or connection that carried the work is gone.
	Lost
	// Stopped: the user asked for it to end.
	Stopped
)

var kindNames = [...]string{"permanent", "not found", "busy", "unsupported", "transient", "invalid", "lost", "stopped"}

// String names the kind as it stands in records.
func (k Kind) String() string { return kindNames[k] }

// KindNamed is the inverse of Kind.String; an unknown name is Permanent.
func KindNamed(name string) Kind {
	for k, n := range kindNames {
		if n == name {
			return Kind(k)
		}
	}
	return Permanent
}

// Error is an error with a kind and, where there is one, the remedy: what the
// user can do next. Op and Object say what was tried on what, in lower case.
type Error struct {
	Kind   Kind
	Op     string // such as "pull image"
	Object string // such as "docker.io/library/debian:12"
	Remedy string // a whole sentence, or empty
	Err    error
}

// Remedies of errors that have no better one, such as those of calls between processes of BEE.
const (
	// RemedyVersions is for what no process of this version sends.
	RemedyVersions = "Use the same version of bee on all machines."
	// RemedyFault is for what neither a user nor a site can cause.
	RemedyFault = "This is a fault of bee: report it with what `bee logs --controller RUN` prints."
	// RemedyAgain is for what is over by itself.
	RemedyAgain = "Try again in a minute."
	// RemedyConnection is for a connection that broke.
	RemedyConnection = "`bee doctor` checks the connections to all sites."
	// RemedyShow is for what a run deals with by itself.
	RemedyShow = "`bee show RUN` prints what the run does next."
)

// Error gives "op object: cause", without the remedy: see Remedy.
func (e *Error) Error() string {
	var parts []string
	if head := strings.TrimSpace(e.Op + " " + e.Object); head != "" {
		parts = append(parts, head)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of the outermost Error in err's chain, else Permanent.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Permanent
}

// IsKind reports whether err is not nil and of kind k.
func IsKind(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// Interrupted reports whether err is the end of a context.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Remedy is the first remedy in err's chain, or "".
func Remedy(err error) string { return firstRemedy(err, func(string) bool { return true }) }

// OwnRemedy is the first remedy in err's chain that is not one of those above, or "": the one that
// knows more than its caller.
func OwnRemedy(err error) string {
	return firstRemedy(err, func(remedy string) bool {
		switch remedy {
		case RemedyVersions, RemedyFault, RemedyAgain, RemedyConnection, RemedyShow:
			return false
		}
		return true
	})
}

func firstRemedy(err error, wanted func(remedy string) bool) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Remedy != "" && wanted(e.Remedy) {
			return e.Remedy
		}
		err = e.Err
	}
	return ""
}
