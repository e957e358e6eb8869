package ssh

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestHostsThatFailAlikeAreToldTogether(t *testing.T) {
	timedOut := func(host, addr string) error {
		return &core.Error{Kind: core.Transient, Op: "reach", Object: host, Err: errors.New("ssh: connect to host " + addr + " port 22: Connection timed out"), Remedy: "Try it."}
	}
	hosts, errs := []string{"ok", "ann@n1", "ann@n2", "other"}, []error{nil, timedOut("ann@n1", "n1"), timedOut("ann@n2", "n2"), errors.New("no key")}
	const first = "reach ann@n1: ssh: connect to host n1 port 22: Connection timed out"
	err := together(hosts, errs)
	if want := first + " (likewise n2)\nno key"; err.Error() != want || core.Remedy(err) == "" || !core.IsKind(err, core.Transient) {
		t.Errorf("got %v", err)
	}
	for i := range 8 {
		hosts, errs = append(hosts, fmt.Sprintf("ann@m%02d", i)), append(errs, timedOut(fmt.Sprintf("ann@m%02d", i), fmt.Sprintf("m%02d", i)))
	}
	if want := first + " (likewise n2, m00, m01, m02, m03, 4 more)\nno key"; together(hosts, errs).Error() != want {
		t.Errorf("got %v", together(hosts, errs))
	}
	if err := together(hosts[:1], errs[:1]); err != nil {
		t.Errorf("got %v", err)
	}
}
