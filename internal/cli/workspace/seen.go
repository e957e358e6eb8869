package workspace

import (
	"errors"
	"strconv"

	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/spf13/pflag"
)

// Seen is the flag --attempt: the attempt of a run that its user has seen. A later one is not
// meant.
type Seen struct{ number *int }

// Flag adds --attempt to the flags of a command.
func (v *Seen) Flag(f *pflag.FlagSet) {
	f.Var(v, "attempt", "do nothing unless the attempt with this `number` is the run's last one (0: it has had none)")
}

// Given reports whether the flag was.
func (v *Seen) Given() bool { return v.number != nil }

// Requests are those of a session to runs at that attempt.
func (v *Seen) Requests(s *Session) request.Requests {
	q := s.Requests()
	q.Seen = v.number
	return q
}

// String implements pflag.Value.
func (v *Seen) String() string {
	if v.number == nil {
		return ""
	}
	return strconv.Itoa(*v.number)
}

// Set implements pflag.Value.
func (v *Seen) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("it is no number of an attempt")
	}
	v.number = &n
	return nil
}

// Type implements pflag.Value.
func (v *Seen) Type() string { return "int" }
