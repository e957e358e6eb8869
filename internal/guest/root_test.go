package guest

import (
	"errors"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
)

// TestASignalThatIsNotDeliveredIsAnError, unless the process has ended.
func TestASignalThatIsNotDeliveredIsAnError(t *testing.T) {
	p, err := startProcess(driver.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	const unknown = syscall.Signal(200)
	if err := p.Signal(t.Context(), unknown); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("signal %d: %v, want %v", unknown, err, syscall.EINVAL)
	}
	if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	exit, err := p.Wait(t.Context())
	if err != nil || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
	if err := p.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("after its end: %v", err)
	}
}
