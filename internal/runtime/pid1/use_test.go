package pid1

import (
	"testing"
	"time"
)

// TestSamplesRest: after one that took long the next is due later, and there is one at a time.
func TestSamplesRest(t *testing.T) {
	m := newMeter()
	defer m.close()
	if r := m.sample(); r.Sample == nil || r.Sample.Processes < 1 || r.Sample.MemoryBytes <= 0 {
		t.Fatalf("got %+v", r)
	}
	if m.rest.Before(time.Now().Add(-time.Minute)) {
		t.Error("no rest follows")
	}
	m.rest = time.Now().Add(time.Hour)
	if r := m.sample(); r.Sample != nil || r.Error == "" {
		t.Errorf("in the rest: %+v", r)
	}
	m.rest = time.Time{}
	m.busy.Lock()
	if r := m.sample(); r.Sample != nil || r.Error == "" {
		t.Errorf("beside another one: %+v", r)
	}
}
