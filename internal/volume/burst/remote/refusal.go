package remote

import (
	"errors"
	"io/fs"
	"syscall"
	"time"
)

// Reason is why a remote refuses a change until a user mends that: waiting alone does not help.
type Reason string

// Reasons.
const (
	Denied   Reason = "denied"    // no permission
	ReadOnly Reason = "read_only" // the file system is
	Full     Reason = "full"      // no space is left
	Quota    Reason = "quota"     // that of the user, or of the bucket, is used up
	TooLarge Reason = "too_large" // a file
	Missing  Reason = "missing"   // there is no such bucket
)

// about is what is known of a reason.
type about struct {
	errno  syscall.Errno // as programs get it
	timed  bool          // others may mend it meanwhile, as they free space
	remedy string
}

func (r Reason) about() about {
	return map[Reason]about{
		Denied:   {syscall.EACCES, false, "Get the permission to write there."},
		ReadOnly: {syscall.EROFS, false, "Make the file system writable there."},
		Full:     {syscall.ENOSPC, true, "Free some space there."},
		Quota:    {syscall.EDQUOT, true, "Free some of your space there, or ask for a larger quota."},
		TooLarge: {syscall.EFBIG, false, "Remove that file from the volume, or have the remote accept it."},
		Missing:  {syscall.ENXIO, false, "Make the bucket again."},
	}[r]
}

// Known reports whether there is such a reason.
func (r Reason) Known() bool { return r.about().errno != 0 }

// Errno is the error that programs get.
func (r Reason) Errno() syscall.Errno { return r.about().errno }

// Remedy is what the user can do, as a sentence.
func (r Reason) Remedy() string { return r.about().remedy }

// Timeout is how long a reason lasts before programs get an error: a usual time for what others may mend.
func (r Reason) Timeout(usual time.Duration) time.Duration {
	if r.about().timed {
		return usual
	}
	return 0
}

// Refusal is an error for a reason that its cause does not have as an errno.
type Refusal struct {
	Reason Reason
	Err    error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the errno that programs get, and the cause.
func (r *Refusal) Unwrap() []error { return []error{r.Reason.Errno(), r.Err} }

// ReasonOf returns why a remote refuses a change; "" where the error is none of that kind.
func ReasonOf(err error) Reason {
	if err == nil || errors.Is(err, ErrAway) {
		return ""
	}
	if r, is := errors.AsType[*Refusal](err); is {
		return r.Reason
	}
	switch {
	case errors.Is(err, syscall.EDQUOT):
		return Quota
	case errors.Is(err, syscall.ENOSPC):
		return Full
	case errors.Is(err, syscall.EFBIG):
		return TooLarge
	case errors.Is(err, syscall.EROFS):
		return ReadOnly
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return ""
}
