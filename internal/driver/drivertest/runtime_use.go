package drivertest

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// use wants what a container uses to grow by what a process in it computes.
func (in insideTests) use(t *testing.T) {
	box, _ := in.suite.shared.start()
	var before float64
	testkit.Eventually(t, suiteTimeout, func() error {
		s, err := box.Use(t.Context())
		before = s.CPUSeconds
		return err
	})
	p, err := box.Exec(t.Context(), driver.Command{Args: []string{"sh", "-c", "while :; do :; done"}, Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, suiteTimeout, func() error {
		s, err := box.Use(t.Context())
		if err == nil && (s.CPUSeconds < before+0.05 || s.MemoryBytes <= 0 || s.Processes < 2 || s.Cores < 1) {
			err = fmt.Errorf("it uses %+v, and %v s of a processor before", s, before)
		}
		return err
	})
	p.Signal(t.Context(), syscall.SIGKILL)
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
