package container

import "testing"

// Who holds what is wanted is named, where its end would help.
// TestAGuestThatBootsHasAConsole: a user who wonders why it does not come up looks there.
func TestAGuestThatBootsHasAConsole(t *testing.T) {
	c := &Current{}
	if _, ok := c.BootConsole(); ok {
		t.Error("there is a console without a machine")
	}
	c.SetBooting(func() (string, error) { return "kernel panic", nil })
	if text, ok := c.BootConsole(); !ok || text != "kernel panic" {
		t.Errorf("got %q, %t", text, ok)
	}
	c.Set(&Container{}) // it is up, and reports by itself
	if _, ok := c.BootConsole(); ok {
		t.Error("a guest that is up is taken for one that boots")
	}
}
