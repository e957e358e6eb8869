package openstack

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// Keys of the metadata of a machine.
const (
	keyInstallation = "bee:installation"
	keyRun          = "bee:run"
	keyAttempt      = "bee:attempt"
	keyToken        = "bee:token"
	keyExpires      = "bee:expires"
	keyType         = "bee:type" // the flavor's name: Nova lists its id
)

// listedLate is how long after their launch machines may not be listed: Nova lists them at once.
const listedLate = 10 * time.Second

// server is a machine in an answer.
type server struct {
	ID        string
	Name      string
	Status    string
	Task      string `json:"OS-EXT-STS:task_state"`
	Power     int    `json:"OS-EXT-STS:power_state"`
	Metadata  map[string]string
	Created   string
	Zone      string `json:"OS-EXT-AZ:availability_zone"`
	Addresses map[string][]struct {
		Address string `json:"addr"`
		Kind    string `json:"OS-EXT-IPS:type"`
	}
	Fault struct{ Message string }
}

// Nova's power states of machines that run, and of those that surely do not. Without a state (0), it may run.
const (
	poweredOn = 1
	shutDown  = 4
	crashed   = 6
)

func (s server) state() cloud.State {
	if s.Task == "deleting" {
		return cloud.Ending
	}
	switch s.Status {
	case "BUILD":
		return cloud.Pending
	case "DELETED", "SOFT_DELETED":
		return cloud.Ended
	case "ERROR":
		switch s.Power {
		case poweredOn: // an operation has failed, and not the machine
			return cloud.Running
		case shutDown, crashed:
			return cloud.Stopped
		}
		return cloud.Failed
	case "SHUTOFF", "SUSPENDED", "PAUSED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE":
		return cloud.Stopped
	}
	return cloud.Running // or about to be, or not known
}

// fixed returns the address of a machine in its network. One of IPv4 is preferred.
func (s server) fixed() string {
	var found []string
	for _, of := range slices.Sorted(maps.Keys(s.Addresses)) {
		for _, a := range s.Addresses[of] {
			if address := checked(a.Address); address != "" && a.Kind != "floating" {
				found = append(found, address)
			}
		}
	}
	if i := slices.IndexFunc(found, func(a string) bool { return netip.MustParseAddr(a).Is4() }); i > 0 {
		return found[i]
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// machine translates a machine.
func (s server) machine() cloud.Machine {
	m := cloud.Machine{ID: s.ID, State: s.state(), Address: s.fixed(), Owner: core.Owner{User: s.Metadata[keyInstallation], Run: s.Metadata[keyRun]}}
	m.Type, m.Zone, m.Made, m.Expires = s.Metadata[keyType], s.Zone, timeOf(s.Created), timeOf(s.Metadata[keyExpires])
	m.Owner.Attempt, _ = strconv.Atoi(s.Metadata[keyAttempt]) // 0, which no attempt has, of anything else
	if at := strings.LastIndex(s.Name, "-"); at >= 0 {        // Nova counts the machines of one request from 1
		if n, err := strconv.Atoi(s.Name[at+1:]); err == nil && n > 0 {
			m.Index = n - 1
		}
	}
	m.Reason = core.Printable(s.Fault.Message, 500)
	if m.Reason == "" && (m.State == cloud.Stopped || m.State == cloud.Failed) {
		m.Reason = "its status is " + core.Printable(s.Status, 40)
	}
	return m
}

// timeOf returns a time in an answer; zero: it is none.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// nameOf returns the name of what a request makes. It is the name of the request's group, too.
func nameOf(token string) string { return "bee-" + token }

// servers returns the machines whose names match an expression and whose metadata pass.
func (a *account) servers(ctx context.Context, name string, pass func(metadata map[string]string) bool) ([]cloud.Machine, error) {
	type page struct {
		Servers []server
		Links   []link `json:"servers_links"`
	}
	all, err := list(ctx, a.client, compute, "servers/detail", url.Values{"name": {name}}, func(p page) ([]server, bool) { return p.Servers, hasNext(p.Links) }, func(s server) string { return s.ID })
	var machines []cloud.Machine
	for _, s := range all {
		if pass(s.Metadata) && isID(s.ID) {
			machines = append(machines, s.machine())
		}
	}
	slices.SortFunc(machines, func(x, y cloud.Machine) int { return x.Index - y.Index })
	return machines, err
}

// Owned implements cloud.API.
func (a *account) Owned(ctx context.Context, q core.Owner) ([]cloud.Machine, error) {
	return a.servers(ctx, "^bee-", func(m map[string]string) bool {
		attempt, _ := strconv.Atoi(m[keyAttempt])
		return m[keyToken] != "" && core.Owner{User: m[keyInstallation], Run: m[keyRun], Attempt: attempt}.Matches(q)
	})
}

// launched returns the machines of a token with their addresses in their network.
func (a *account) launched(ctx context.Context, token string) ([]cloud.Machine, error) {
	return a.servers(ctx, "^"+regexp.QuoteMeta(nameOf(token)), func(m map[string]string) bool { return m[keyToken] == token })
}

// Launched implements cloud.API.
func (a *account) Launched(ctx context.Context, token string) ([]cloud.Machine, error) {
	machines, err := a.launched(ctx, token)
	if err != nil || len(machines) == 0 || a.s.Floating == FloatingNone {
		return machines, err
	}
	addresses, err := a.floating(ctx, describe(machines[0].Owner), nameOf(token))
	return a.reached(machines, addresses), err
}

// Launch implements cloud.API. Nova may build a part of the machines, and reports only later which: what it has not
// built ends the others.
func (a *account) Launch(ctx context.Context, o cloud.Order) ([]cloud.Machine, error) {
	there, err := a.launched(ctx, o.Token)
	if err != nil {
		return nil, err
	}
	if len(there) == 0 {
		if err := a.reserve(ctx, o); err != nil {
			return nil, err
		}
		if err := (building{a}).create(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := (building{a}).built(ctx, o); err != nil {
		return nil, err
	}
	return a.Launched(ctx, o.Token)
}

// building is the machines of a request until they run.
type building struct{ a *account }

// create has Nova make the machines of a request. Where the answer is lost, they may be there.
func (b building) create(ctx context.Context, o cloud.Order) error {
	a := b.a
	metadata := map[string]string{}
	maps.Copy(metadata, a.s.Tags)
	maps.Copy(metadata, map[string]string{
		keyInstallation: o.Owner.User, keyRun: o.Owner.Run, keyAttempt: strconv.Itoa(o.Owner.Attempt), keyToken: o.Token, keyExpires: o.Expires.UTC().Format(time.RFC3339),
		keyType: o.Offer.Type,
	})
	body := map[string]any{
		"name": nameOf(o.Token), "imageRef": o.Offer.Image, "flavorRef": o.Offer.Flavor, "min_count": o.Nodes, "max_count": o.Nodes, "metadata": metadata,
		"user_data": base64.StdEncoding.EncodeToString([]byte(o.Script)), "networks": []any{map[string]string{"uuid": o.Offer.Network}},
		"security_groups": []any{map[string]string{"name": o.Group}},
	}
	if o.Offer.Zone != "" {
		body["availability_zone"] = o.Offer.Zone
	}
	request := map[string]any{"server": body}
	if o.PlacementGroup != "" {
		request["os:scheduler_hints"] = map[string]string{"group": o.PlacementGroup}
	}
	if o.Reservation != "" {
		hints, err := reservations{a}.intoLease(ctx, o.Reservation, body)
		if err != nil {
			return err
		}
		request["os:scheduler_hints"] = hints
	}
	err := a.call(ctx, compute, post, "servers", request, nil)
	if o.PlacementGroup != "" && isFullGroup(err) {
		return o.Offer.Placement.Refused(err)
	}
	if !core.IsKind(err, core.Transient) {
		return err
	}
	if there, lerr := a.launched(ctx, o.Token); lerr == nil && len(there) > 0 {
		return nil
	}
	return err
}

// endTime bounds how long the end of machines of which a part was not built is waited for.
const endTime = 2 * time.Minute

// built waits until all machines of a request run, and have their addresses. Else it ends them.
func (b building) built(ctx context.Context, o cloud.Order) error {
	a := b.a
	rest := pauses()
	for begun := time.Now(); ; {
		machines, err := a.launched(ctx, o.Token)
		if err != nil {
			return err
		}
		running := 0
		for _, m := range machines {
			switch {
			case m.State > cloud.Running:
				reason := fmt.Errorf("machine %d of %d: %s", m.Index+1, o.Nodes, m.Reason)
				if err := a.endAll(ctx, o.Token); err != nil {
					return err
				}
				return &core.Error{
					Kind: core.Busy, Op: "rent", Object: o.Offer.String(), Err: fmt.Errorf("%w: %w", cloud.ErrNoCapacity, reason),
					Remedy: "Add types or zones to the site, or let another site take the run.",
				}
			case m.State == cloud.Running && m.Address != "":
				running++
			}
		}
		if running == o.Nodes && len(machines) == o.Nodes {
			return a.attach(ctx, o, machines)
		}
		if time.Since(begun) > a.s.Cloud.Boot || len(machines) > o.Nodes {
			cause := fmt.Errorf("after %s, %d of %d machines run", time.Since(begun).Round(time.Second), running, o.Nodes)
			return errors.Join(&core.Error{
				Kind: core.Transient, Op: "rent", Object: o.Offer.String(), Err: cause, Remedy: "`boot:` at the site allows more time.",
			}, a.endAll(ctx, o.Token))
		}
		if err := rest.Wait(ctx); err != nil {
			return err
		}
	}
}

// endAll ends all machines of a request, and waits until none is listed.
func (a *account) endAll(ctx context.Context, token string) error {
	rest := pauses()
	for begun := time.Now(); ; {
		machines, err := a.launched(ctx, token)
		if err != nil {
			return err
		}
		var left, live []string
		for _, m := range machines {
			if m.State < cloud.Ending {
				live = append(live, m.ID)
			}
			if m.State != cloud.Ended {
				left = append(left, m.ID)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if err := a.End(ctx, live); err != nil {
			return err
		}
		if time.Since(begun) > endTime {
			return &core.Error{Kind: core.Transient, Op: "end machines", Object: strings.Join(left, ", "), Err: fmt.Errorf("they are there after %s", endTime), Remedy: "A later `bee` command continues."}
		}
		if err := rest.Wait(ctx); err != nil {
			return err
		}
	}
}

// End implements cloud.API. Disks that Nova makes of an image end with their machine.
func (a *account) End(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := checkID("end machine", id); err != nil {
			return err
		}
		if err := a.call(ctx, compute, remove, "servers/"+id, nil, nil); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// Stop implements cloud.API. Nova refuses it of machines that have stopped, with the status of a conflict.
func (a *account) Stop(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := checkID("stop machine", id); err != nil {
			return err
		}
		err := a.call(ctx, compute, post, "servers/"+id+"/action", map[string]any{"os-stop": nil}, nil)
		if status := statusOf(err); err != nil && status != http.StatusNotFound && status != http.StatusConflict {
			return err
		}
	}
	return nil
}

// consoleLines is how many lines of a console are read.
const consoleLines = 50

// Console implements cloud.API.
func (a *account) Console(ctx context.Context, id string) (string, error) {
	if !isID(id) {
		return "", nil
	}
	var answer struct{ Output string }
	err := a.call(ctx, compute, post, "servers/"+id+"/action", map[string]any{"os-getConsoleOutput": map[string]int{"length": consoleLines}}, &answer)
	return answer.Output, err
}
