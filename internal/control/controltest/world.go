package controltest

import (
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// World is a store for runs and the fake sites that they may use.
type World struct {
	Store *state.Store
	Sites map[string]*Site
}

// NewWorld returns a World with sites of these names. Its store is closed when the test ends.
func NewWorld(t *testing.T, names ...string) World {
	t.Helper()
	store, err := state.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := World{Store: store, Sites: map[string]*Site{}}
	for _, n := range names {
		w.Sites[n] = NewSite(t)
	}
	return w
}

// Provider returns the provider of a site.
func (w World) Provider(s spec.Site) (driver.Provider, error) { return w.Sites[s.Name], nil }
