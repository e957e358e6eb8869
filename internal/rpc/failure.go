package rpc

import (
	"errors"

	"github.com/bee-hpc/bee/internal/core"
)

// Bounds of the texts of an error that comes from another process, in bytes.
const (
	maxMessage = 16 << 10
	maxRemedy  = 2 << 10
	// maxFailure bounds a Failure as JSON, in which a byte may become six.
	maxFailure = 6*(maxMessage+maxRemedy) + 1024
)

// Failure is an error on its way to another process. The zero value is none.
type Failure struct {
	Kind    string `json:"kind,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Fail gives an error as a Failure, and nil as none.
func Fail(err error) Failure {
	if err == nil {
		return Failure{}
	}
	f := Failure{Kind: core.KindOf(err).String(), Message: core.Printable(err.Error(), maxMessage), Remedy: core.Printable(core.Remedy(err), maxRemedy)}
	if f.Message == "" {
		f.Message = "failed without a reason"
	}
	return f
}

// Check refuses a kind that there is not, and texts that are too long.
func (f Failure) Check() error {
	why := ""
	switch {
	case f.Kind != "" && core.KindNamed(f.Kind).String() != f.Kind:
		why = "its kind is unknown"
	case f.Kind == "" && f != Failure{}:
		why = "it has no kind"
	case len(f.Message) > maxMessage || len(f.Remedy) > maxRemedy:
		why = "it is too long"
	default:
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "check", Object: "an error of another process", Err: errors.New(why), Remedy: core.RemedyVersions}
}

// Err gives the error, with texts that are safe to show, or nil.
func (f Failure) Err() error {
	if (f == Failure{}) {
		return nil
	}
	return &core.Error{Kind: core.KindNamed(f.Kind), Err: errors.New(core.Printable(f.Message, maxMessage)), Remedy: core.Printable(f.Remedy, maxRemedy)}
}
