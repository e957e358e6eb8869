package head

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// refusingBurst is a burst buffer whose remote has these reasons, one after the other.
type refusingBurst struct {
	Burst
	reasons []string
}

func (b *refusingBurst) Refused(context.Context) (r BurstRefusal, err error) {
	if len(b.reasons) == 0 {
		return r, nil
	}
	r.Reason, b.reasons = b.reasons[0], b.reasons[1:]
	if r.Reason == "dead" {
		return r, errors.New("no answer")
	}
	if r.Reason != "" {
		r.Err = &core.Error{Op: "drain to", Object: r.Reason}
	}
	return r, nil
}

// TestRefusalsAreRemarked once for each reason, and so is the end of the last.
func TestRefusalsAreRemarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(partsOf(t, plan.Config{Size: 1, Host: core.Host{Name: "h0", Dir: t.TempDir()}, Plan: &plan.Plan{}}))
		if err != nil {
			t.Fatal(err)
		}
		h.burst.watch(&refusingBurst{reasons: []string{"", "denied", "denied", "dead", "denied", "quota", "", ""}})
		time.Sleep(10 * lookRefused) // in virtual time
		h.burst.endWatch()
		var texts []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.journal.Follow(ctx, 0, func(e plan.Event) error { //nolint:errcheck // it ends with its context
			if e.Remark {
				texts = append(texts, e.Message)
			}
			return nil
		})
		if len(texts) != 3 || !strings.Contains(texts[0], "denied") || !strings.Contains(texts[1], "quota") || strings.Contains(texts[2], "quota") {
			t.Errorf("remarks: %q", texts)
		}
	})
}
