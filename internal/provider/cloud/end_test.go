package cloud

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// granted is a reservation.
type granted struct {
	Reservations
	Reservation
	err error
}

func (g granted) Reserved(context.Context, string) (Reservation, error) { return g.Reservation, g.err }

// TestWhyMachinesHaveEnded: a cloud is asked where its lists have no reason, also of machines that are not listed any more.
// The end of their reservation explains more.
func TestWhyMachinesHaveEnded(t *testing.T) {
	a, dir := newAccount(), t.TempDir()
	_, l := acquired(t, a, dir)
	first := l.r.Machines[0]
	want := func(when string, end core.HostsEnd) {
		t.Helper()
		if st, err := l.Status(t.Context()); err != nil || st.Live || st.End != end || st.Reason == "" {
			t.Errorf("%s: got %+v, %v", when, st, err)
		}
	}
	a.machines[0].State = Stopped
	want("not known", "")
	a.ends = map[string]core.HostsEnd{first: core.HostsPoweredOff}
	want("known to the cloud", core.HostsPoweredOff)
	a.endsError = errors.New("it does not answer")
	want("without an answer", "")
	a.endsError = nil
	l.r.Reservation, a.reservations = "r", granted{Reservation: Reservation{Over: "it is over", Ended: core.HostsReclaimed}}
	want("as its reservation is over", core.HostsReclaimed)
	a.reservations = granted{err: &core.Error{Kind: core.NotFound}}
	want("as its reservation was deleted", core.HostsEnded)
	a.reservations = granted{Reservation: Reservation{Active: true}}
	want("within its reservation", core.HostsPoweredOff)
	l.r.Reservation, a.reservations = "", nil
	for i := range a.machines {
		a.machines[i].Owner.Run = "none"
	}
	a.tokens[l.r.Token], l.r.Launched = nil, time.Now().Add(-time.Hour)
	want("not listed any more", core.HostsPoweredOff)
	if _, err := newProvider(t, a, dir, time.Minute).Recover(t.Context(), l.Handle()); !core.IsKind(err, core.NotFound) || core.HostsEndOf(err) != core.HostsPoweredOff {
		t.Errorf("recovered with %v (%q)", err, core.HostsEndOf(err))
	}
	if _, err := os.Stat(l.dir); err == nil {
		t.Fatal("the record is still there")
	}
	want("released by another process", core.HostsPoweredOff)
	a.ends[first] = core.HostsEnded
	want("ended by bee", "")
}

// unanswered is a reservation whose extensions are carried out, and their answers lost.
type unanswered struct {
	Reservations
	end time.Time
}

func (u *unanswered) Reserved(context.Context, string) (Reservation, error) {
	return Reservation{ID: "r", End: u.end, Active: true}, nil
}

func (u *unanswered) Extend(_ context.Context, _ string, end time.Time) (Reservation, error) {
	u.end = end
	return Reservation{}, &core.Error{Kind: core.Transient, Err: errors.New("the connection broke")}
}

// TestLostExtension: machines live as long as their reservation, also where the answer to its extension is lost.
func TestLostExtension(t *testing.T) {
	a := newAccount()
	_, l := acquired(t, a, t.TempDir())
	u := &unanswered{end: time.Now()}
	a.reservations, l.r.Asked, l.r.Reservation = u, false, "r"
	if err := (queue{l}).lengthen(t.Context(), l.r, Reservation{ID: "r", End: u.end}); err != nil {
		t.Fatal(err)
	}
	if !l.r.Expires.Equal(u.end) || time.Until(u.end) < l.p.s.Life()-time.Minute {
		t.Errorf("they live until %s, and are reserved until %s", l.r.Expires, u.end)
	}
}
