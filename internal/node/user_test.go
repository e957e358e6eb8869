package node

import (
	"context"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/testkit"
)

// withUser is a cache whose images are made for someone.
type withUser struct{ Images }

func (withUser) Account(context.Context, core.Image) (*core.Account, error) {
	return &core.Account{UID: 33, GID: 33, Name: "www"}, nil
}

// mapper is a runtime of which only that is known.
type mapper struct {
	driver.Runtime
	maps bool
}

func (m mapper) Info() driver.Info { return driver.Info{Name: "theirs", MapsUsers: m.maps} }

// TestWhereAnImagesUserCounts: where it does not, the reason is reported.
func TestWhereAnImagesUserCounts(t *testing.T) {
	machines := &plan.VM{}
	for name, c := range map[string]struct {
		plan   plan.Plan
		maps   bool
		counts bool
		note   bool
	}{
		"ids are mapped":              {maps: true, counts: true},
		"and calls are filtered":      {plan: plan.Plan{Seccomp: true}, maps: true, counts: true},
		"in guests":                   {plan: plan.Plan{VM: machines}, maps: true, counts: true},
		"in guests, calls filtered":   {plan: plan.Plan{VM: machines, Seccomp: true}, maps: true, note: true},
		"ids are not mapped":          {note: true},
		"the caller's ids are wanted": {plan: plan.Plan{CallerIDs: true}, maps: true},
		"root is":                     {plan: plan.Plan{Root: true}, maps: true},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			k := &maker{images: withUser{}, plan: &c.plan, say: func(text string) { said = append(said, text) }}
			c.plan.Image.Config.User = "www"
			user, err := k.imageUser(t.Context(), mapper{maps: c.maps})
			if err != nil || (user != nil) != c.counts {
				t.Errorf("it is %+v, %v", user, err)
			}
			if len(said) > 1 || c.note != (len(said) == 1) {
				t.Fatalf("told: %+v", said)
			}
			if c.note {
				testkit.Wording(t, "note", said[0])
			}
		})
	}
}
