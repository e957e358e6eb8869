package event

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Cause is an error as data.
type Cause struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// CauseOf returns an error as data.
func CauseOf(err error) Cause {
	return Cause{core.KindOf(err).String(), err.Error(), core.Remedy(err)}
}

// SiteCause returns what a site has against a run, without the name of the site.
func SiteCause(site string, err error) Cause {
	c := CauseOf(err)
	if e, is := err.(*core.Error); is && e.Object == site && e.Err != nil { //nolint:errorlint // the outermost error names the site
		c.Message = e.Err.Error()
	}
	return c
}

// Seconds is a duration, in JSON a number of seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(raw []byte) error {
	var n float64
	err := json.Unmarshal(raw, &n)
	*s = Seconds(n * float64(time.Second))
	return err
}

// String writes the duration as Go does.
func (s Seconds) String() string { return time.Duration(s).String() }

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
