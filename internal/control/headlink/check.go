package headlink

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// InvalidReport is the error of a report that no head of ours sends. Later reports are not
// believed either, and the attempt is lost.
type InvalidReport struct{ error }

// Unwrap returns the cause.
func (u InvalidReport) Unwrap() error { return u.error }

// Invalid is the loss of an attempt by what its head says, with the cause; nil: it is valid.
func (f *Files) Invalid(err error) error {
	if err == nil || errors.As(err, new(InvalidReport)) {
		return err
	}
	return InvalidReport{&core.Error{
		Kind: core.Lost, Op: "believe the head on site", Object: f.Site, Err: err,
		Remedy: fmt.Sprintf("Its host is damaged, or another process answers in its place. `bee logs --node 0 %s` shows what it wrote.", f.Run),
	}}
}

// Checked is a head whose words are checked where they enter.
func (f *Files) Checked(h Head) Head { return checked{h, f} }

// checked is a head whose words are checked where they enter.
type checked struct {
	Head
	files *Files
}

// Watch implements Head.
func (h checked) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	err := h.Head.Watch(ctx, after, func(e protocol.Event) error {
		if err := e.Check(h.files.Asked, after); err != nil {
			return h.files.Invalid(err)
		}
		after = e.Seq
		return fn(e)
	})
	if isGarbage(err) {
		return h.files.Invalid(err)
	}
	return err
}

// isGarbage reports whether an error is of a message that does not parse, or has another shape.
// Reading it again gives the same error.
func isGarbage(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, is := err.(*core.Error); is && e.Kind == core.Invalid { //nolint:errorlint // each of the chain is looked at
			return true
		}
	}
	return false
}
