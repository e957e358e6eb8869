package openstackserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// NodeType is that of the only hosts that can be reserved, of which there are two.
const NodeType = "compute_test"

const (
	reservable = 2
	// mostLease is how long a lease may be.
	mostLease = 7 * 24 * time.Hour
)

// lease is a lease of Blazar, with one reservation.
type lease struct {
	id, name, status string
	start, end       time.Time
	reservation      map[string]any
	hosts            int
}

// blazar answers the calls of Blazar.
type blazar struct{ s *Server }

// Forms of times, in calls and in answers.
const (
	blazarCall   = "2006-01-02 15:04"
	blazarAnswer = "2006-01-02T15:04:05.000000"
)

// item is a lease in an answer.
func (l *lease) item() map[string]any {
	return map[string]any{
		"id": l.id, "name": l.name, "status": l.status, "start_date": l.start.Format(blazarAnswer), "end_date": l.end.Format(blazarAnswer), "degraded": false,
		"project_id": projectID, "user_id": "u", "trust_id": "t", "created_at": "2026-11-27 18:00:00", "updated_at": nil, "reservations": []any{l.reservation}, "events": []any{},
	}
}

// active has the reservation of a lease active.
func (l *lease) active() { l.status, l.reservation["status"] = "ACTIVE", "active" }

func (b blazar) listLeases(*http.Request, map[string]any) (int, any, error) {
	items := []any{}
	for _, l := range b.s.leases {
		items = append(items, l.item())
	}
	return http.StatusOK, map[string]any{"leases": items}, nil
}

// showLease has a lease that starts now be active from the second look on.
func (b blazar) showLease(r *http.Request, _ map[string]any) (int, any, error) {
	l, err := b.find(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	answer := l.item()
	raw, err := json.Marshal(answer) // before it changes
	if l.status == "PENDING" && !l.start.After(time.Now()) {
		l.active()
	}
	return http.StatusOK, map[string]any{"lease": json.RawMessage(raw)}, err
}

func (b blazar) find(id string) (*lease, error) {
	for _, l := range b.s.leases {
		if l.id == id {
			return l, nil
		}
	}
	return nil, blame(http.StatusNotFound, "Object with {'lease_id': '%s'} not found", id)
}

// blame is an error in Blazar's form.
func blame(status int, format string, args ...any) error {
	return &apiError{status, "blazar", fmt.Sprintf(format, args...)}
}

func (b blazar) makeLease(_ *http.Request, q map[string]any) (int, any, error) {
	reservations, _ := q["reservations"].([]any)
	name, _ := q["name"].(string)
	if name == "" || len(name) > 80 || len(reservations) != 1 {
		return 0, nil, blame(http.StatusBadRequest, "Missing parameter name")
	}
	if b.s.limited { // as Blazar 18 answers where Keystone refuses it a trust
		return 0, nil, blame(http.StatusInternalServerError, "Internal Server Error")
	}
	now := time.Now().UTC().Truncate(time.Minute)
	start, err := date(q["start_date"], now)
	if err != nil {
		return 0, nil, err
	}
	end, err := date(q["end_date"], now)
	switch {
	case err != nil:
		return 0, nil, err
	case start.Before(now):
		return 0, nil, blame(http.StatusBadRequest, "Start date must be later than current date")
	case !end.After(start):
		return 0, nil, blame(http.StatusBadRequest, "End date must be later than start date.")
	case end.Sub(start) > mostLease:
		return 0, nil, blame(http.StatusBadRequest, "Lease duration of %d seconds must be less than or equal to the maximum lease duration of %d seconds.", int(end.Sub(start).Seconds()), int(mostLease.Seconds()))
	}
	l := &lease{id: b.s.id("lease"), name: name, status: "PENDING", start: start, end: end}
	l.reservation, _ = reservations[0].(map[string]any)
	if l.hosts, err = b.reserve(l); err != nil {
		return 0, nil, err
	}
	b.s.leases = append(b.s.leases, l)
	return http.StatusCreated, map[string]any{"lease": l.item()}, nil
}

func date(text any, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	t, err := time.Parse(blazarCall, fmt.Sprint(text))
	if err != nil {
		return t, blame(http.StatusBadRequest, "%v is an invalid date. Required format: %%Y-%%m-%%d %%H:%%M", text)
	}
	return t, nil
}

// reserve checks a reservation, and returns how many machines it is for.
func (b blazar) reserve(l *lease) (int, error) {
	r := l.reservation
	amount, required := "amount", []string{"amount", "flavor_id", "affinity"}
	switch r["resource_type"] {
	case "physical:host":
		amount, required = "min", []string{"min", "max", "hypervisor_properties", "resource_properties"}
	case "virtual:instance":
		required = []string{"amount", "vcpus", "memory_mb", "disk_gb", "affinity", "resource_properties"}
	case "flavor:instance":
	default:
		return 0, blame(http.StatusInternalServerError, "The %v resource type is not supported", r["resource_type"])
	}
	for _, key := range required {
		if _, is := r[key]; !is {
			return 0, blame(http.StatusBadRequest, "Missing parameter %s", key)
		}
	}
	n, _ := r[amount].(float64)
	if text, _ := r["resource_properties"].(string); text != "" {
		var expression []string
		if err := json.Unmarshal([]byte(text), &expression); err != nil || len(expression) != 3 || expression[0] != "==" || expression[1] != "$node_type" {
			return 0, blame(http.StatusBadRequest, "Malformed requirements %s", text)
		}
		if expression[2] != NodeType {
			n = reservable + 1
		}
	}
	if n < 1 || b.used(l)+int(n) > reservable {
		return 0, notEnough()
	}
	id := b.s.id("reservation")
	r["id"], r["status"], r["lease_id"] = id, "pending", l.id
	if amount == "amount" {
		r["flavor_id"] = id
	}
	return int(n), nil
}

// notEnough is the error where hosts are not free, with Blazar's own status.
func notEnough() error { return blame(http.StatusInternalServerError, "Not enough hosts available") }

// used is how many hosts other leases have at the time of one.
func (b blazar) used(l *lease) (n int) {
	for _, o := range b.s.leases {
		if o.id != l.id && o.status != "TERMINATED" && o.start.Before(l.end) && l.start.Before(o.end) {
			n += o.hosts
		}
	}
	return n
}

// moveLease changes the end of a lease.
func (b blazar) moveLease(r *http.Request, q map[string]any) (int, any, error) {
	l, err := b.find(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	now := time.Now().UTC().Truncate(time.Minute)
	end, err := date(q["end_date"], now)
	switch moved := (&lease{id: l.id, start: l.start, end: end}); {
	case err != nil:
		return 0, nil, err
	case l.status == "TERMINATED":
		return 0, nil, blame(http.StatusBadRequest, "Terminated leases can only be renamed")
	case end.Before(now), !end.After(l.start):
		return 0, nil, blame(http.StatusBadRequest, "End date must be later than current and start date")
	case b.used(moved)+l.hosts > reservable:
		return 0, nil, notEnough()
	default:
		l.end = end
		return http.StatusOK, map[string]any{"lease": l.item()}, nil
	}
}

func (b blazar) endLease(r *http.Request, _ map[string]any) (int, any, error) {
	l, err := b.find(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	b.end(l)
	b.s.leases = slices.DeleteFunc(b.s.leases, func(o *lease) bool { return o == l })
	return http.StatusNoContent, nil, nil
}

// end has a lease be over: its machines are deleted.
func (b blazar) end(l *lease) {
	l.status, l.reservation["status"] = "TERMINATED", "deleted"
	for _, m := range b.s.servers {
		if m.reservation == l.reservation["id"] && m.batch != nil && !m.removed {
			m.removed, m.task = true, "deleting"
			b.s.acted(m.id, "delete", "service")
			m.batch.End(m.at)
		}
	}
}

// reserved returns the name of the flavor, and the id of the reservation, of a request for machines; "": it is for
// none. The error is why Nova finds no host.
func (b blazar) reserved(flavor, hint string) (name, id string, err error) {
	for _, l := range b.s.leases {
		own := fmt.Sprint(l.reservation["id"])
		if own != hint && own != flavor {
			continue
		}
		if l.status != "ACTIVE" {
			return "", own, fmt.Errorf("lease %s is %s", l.id, l.status)
		}
		if own == flavor {
			name = Small
		}
		return name, own, nil
	}
	if hint != "" {
		return "", hint, fmt.Errorf("no reservation %s", hint)
	}
	return "", "", nil
}

// Reserve makes a lease as a user does, which is active.
func (s *Server) Reserve(name string, hosts int, end time.Time) {
	s.locked(func() {
		l := &lease{id: s.id("lease"), name: name, start: time.Now().UTC().Add(-time.Minute), end: end.UTC(), hosts: hosts}
		l.reservation = map[string]any{"id": s.id("reservation"), "resource_type": "physical:host", "min": hosts, "max": hosts}
		l.active()
		s.leases = append(s.leases, l)
	})
}

// EndLeases has the time of all leases be over, or, as their operator may, end some time from now.
func (s *Server) EndLeases(in time.Duration) {
	s.locked(func() {
		for _, l := range s.leases {
			if in == 0 {
				blazar{s}.end(l)
			} else if l.status != "TERMINATED" {
				l.end = time.Now().UTC().Add(in)
			}
		}
	})
}

// StartLeases has the time of all leases begin.
func (s *Server) StartLeases() {
	s.locked(func() {
		for _, l := range s.leases {
			l.active()
		}
	})
}
