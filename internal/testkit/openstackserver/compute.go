package openstackserver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/testkit/machines"
)

// Flavors: Small has 2 cores, Large 4, Tiny a disk of 1 GiB, and Metal is of hosts, which have to be reserved.
const (
	Small = "m1.small"
	Large = "m1.large"
	Tiny  = "m1.tiny"
	Metal = "baremetal"
)

// Image is an image with a login user in its properties, Plain one without, Twice a name of two, and Big needs more disk
// than Tiny has. Arm is for other processors.
const (
	Image = "debian-12"
	Plain = "own"
	Twice = "twice"
	Big   = "ubuntu-big"
	Arm   = "debian-12-arm"
)

// Zone is the availability zone.
const Zone = "nova"

// server is a machine.
type server struct {
	id, name, status, task, fault string
	metadata                      map[string]string
	network, group                string
	reservation                   string // that it was launched into
	at                            int
	batch                         *machines.Batch
	created                       time.Time
	doomed                        bool // its status becomes ERROR
	removed                       bool // DELETE was called
}

// nova answers the calls of Nova.
type nova struct{ s *Server }

func (nova) listFlavors(*http.Request, map[string]any) (int, any, error) {
	flavor := func(id, name string, cores, memory, disk int) map[string]any {
		return map[string]any{"id": id, "name": name, "vcpus": cores, "ram": memory, "disk": disk, "OS-FLV-DISABLED:disabled": false, "OS-FLV-EXT-DATA:ephemeral": 0, "swap": "", "links": []any{}}
	}
	return http.StatusOK, map[string]any{"flavors": []any{flavor("1", Tiny, 1, 512, 1), flavor("2", Small, 2, 4096, 20), flavor("42", Large, 4, 8192, 0), flavor("43", Metal, 2, 4096, 0)}}, nil
}

// flavorNames are the names of flavors by their ids.
func flavorNames() map[string]string {
	return map[string]string{"1": Tiny, "2": Small, "42": Large, "43": Metal}
}

func (nova) listZones(*http.Request, map[string]any) (int, any, error) {
	zone := func(name string, available bool) map[string]any {
		return map[string]any{"zoneName": name, "zoneState": map[string]any{"available": available}, "hosts": nil}
	}
	return http.StatusOK, map[string]any{"availabilityZoneInfo": []any{zone(Zone, true), zone("broken", false)}}, nil
}

func (c nova) limits(*http.Request, map[string]any) (int, any, error) {
	return http.StatusOK, map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": map[string]any{
		"maxTotalInstances": c.s.quota, "totalInstancesUsed": len(c.s.servers), "maxTotalCores": -1, "totalCoresUsed": 0, "maxTotalRAMSize": 51200, "totalRAMUsed": 0,
	}}}, nil
}

func (c nova) makeServers(_ *http.Request, body map[string]any) (int, any, error) {
	q, _ := body["server"].(map[string]any)
	count, _ := q["min_count"].(float64)
	most, _ := q["max_count"].(float64)
	script, err := base64.StdEncoding.DecodeString(fmt.Sprint(q["user_data"]))
	networks, _ := q["networks"].([]any)
	groups, _ := q["security_groups"].([]any)
	if err != nil || len(script) > 65535 || count < 1 || count != most || len(networks) != 1 || len(groups) != 1 {
		return 0, nil, fail(http.StatusBadRequest, "Invalid input for field/attribute server: %v", err)
	}
	metadata := map[string]string{}
	given, _ := q["metadata"].(map[string]any)
	for k, v := range given {
		text, is := v.(string)
		if !is || len(text) > 255 || !regexp.MustCompile(`^[a-zA-Z0-9-_:. ]{1,255}$`).MatchString(k) {
			return 0, nil, fail(http.StatusBadRequest, "Invalid input for field/attribute metadata. Value: %v", given)
		}
		metadata[k] = text
	}
	flavor, name, within := flavorNames()[fmt.Sprint(q["flavorRef"])], fmt.Sprint(q["name"]), fmt.Sprint(groups[0].(map[string]any)["name"])
	network := fmt.Sprint(networks[0].(map[string]any)["uuid"])
	hints, _ := body["os:scheduler_hints"].(map[string]any)
	hint, _ := hints["reservation"].(string)
	place, _ := hints["group"].(string)
	placed := c.s.place(place)
	of, reservation, unreserved := blazar(c).reserved(fmt.Sprint(q["flavorRef"]), hint)
	if of != "" {
		flavor = of
	}
	switch {
	case flavor == "":
		return 0, nil, fail(http.StatusBadRequest, "Flavor %v could not be found.", q["flavorRef"])
	case !slices.ContainsFunc(glance(c).images(), func(i imageItem) bool { return i["id"] == q["imageRef"] }):
		return 0, nil, fail(http.StatusBadRequest, "Can not find requested image")
	case !slices.ContainsFunc(c.s.groups, func(g *group) bool { return g.id == within }):
		return 0, nil, fail(http.StatusBadRequest, "Security group %s not found for project %s.", within, projectID)
	case place != "" && placed == nil:
		return 0, nil, fail(http.StatusBadRequest, "Instance group %s could not be found.", place)
	case placed != nil && len(placed.members)+int(count) > c.s.members:
		return 0, nil, fail(http.StatusForbidden, "Quota exceeded, too many servers in group")
	case len(c.s.servers)+int(count) > c.s.quota:
		return 0, nil, fail(http.StatusForbidden, "Quota exceeded for instances: Requested %d, but already used %d of %d instances", int(count), len(c.s.servers), c.s.quota)
	}
	var made []*server
	var ids, names []string
	for i := range int(count) {
		m := &server{id: c.s.id("server"), name: name, status: "BUILD", metadata: metadata, network: network, group: within, reservation: reservation, at: i, created: time.Now()}
		if count > 1 {
			m.name += "-" + strconv.Itoa(i+1)
		}
		made, ids, names = append(made, m), append(ids, m.id), append(names, m.name)
		if placed != nil {
			placed.members = append(placed.members, m.id)
		}
	}
	c.s.servers = append(c.s.servers, made...)
	for _, m := range made {
		c.s.acted(m.id, "create", projectID)
	}
	if c.s.full[flavor] > 0 || placed != nil && c.s.full[placed.policy+" "+flavor] > 0 || unreserved != nil || flavor == Metal && reservation == "" {
		c.s.full[flavor] = max(0, c.s.full[flavor]-1)
		for _, m := range made {
			m.status, m.fault = "ERROR", "No valid host was found. There are not enough hosts available."
		}
	} else {
		for i := range made {
			made[i].doomed = i >= len(made)-c.s.broken
		}
		c.s.broken = 0
		batch := c.s.Boot(ids, names, string(script), c.events(made))
		for _, m := range made {
			m.batch = batch
		}
	}
	return http.StatusAccepted, map[string]any{"server": map[string]any{"id": made[0].id, "links": []any{}, "security_groups": []any{}, "OS-DCF:diskConfig": "MANUAL", "adminPass": "x"}}, nil
}

// events have machines change as Nova's do.
func (c nova) events(made []*server) machines.Events {
	return machines.Events{
		Running: func(n int) {
			c.s.locked(func() {
				m := made[n]
				switch {
				case m.status != "BUILD", c.s.held:
				case m.doomed:
					m.status, m.fault = "ERROR", "Build of instance "+m.id+" aborted: the test wants it."
				case m.network == flat:
					if m.batch.Route(m.batch.Address(n), n) == nil {
						m.status = "ACTIVE"
					}
				default:
					m.status = "ACTIVE"
				}
			})
		},
		PoweredOff: func(n int) { // it stays, and costs
			c.s.locked(func() {
				c.s.acted(made[n].id, "stop", "") // as Nova itself does, once it has seen that
				made[n].batch.End(n)
			})
		},
		Ended: func(n int) {
			c.s.locked(func() {
				if made[n].task == "powering-off" {
					made[n].task = ""
				}
				if made[n].status = "SHUTOFF"; made[n].removed {
					c.drop(made[n])
				}
			})
		},
	}
}

// drop forgets a machine. Nova does so at once; its floating address stays.
func (c nova) drop(m *server) {
	c.s.servers = slices.DeleteFunc(c.s.servers, func(o *server) bool { return o == m })
	for _, a := range c.s.floating {
		if a.port == "port-"+m.id {
			a.port, a.fixed = "", ""
		}
	}
}

func (c nova) listServers(r *http.Request, _ map[string]any) (int, any, error) {
	name, err := regexp.Compile(r.URL.Query().Get("name"))
	if err != nil {
		return 0, nil, fail(http.StatusBadRequest, "Invalid name filter: %v", err)
	}
	passed := r.URL.Query().Get("marker") == ""
	items, more := []any{}, false
	for _, m := range c.s.servers {
		if passed && name.MatchString(m.name) {
			if more = len(items) == 2; more { // pages, as Nova has them
				break
			}
			items = append(items, c.item(m))
		}
		passed = passed || m.id == r.URL.Query().Get("marker")
	}
	reply := map[string]any{"servers": items}
	if more {
		reply["servers_links"] = []any{map[string]any{"rel": "next", "href": c.s.url}}
	}
	return http.StatusOK, reply, nil
}

// item is a machine in an answer.
func (nova) item(m *server) map[string]any {
	item := map[string]any{
		"id": m.id, "name": m.name, "status": m.status, "metadata": m.metadata, "OS-EXT-STS:task_state": nil, "OS-EXT-STS:power_state": 0, "addresses": map[string]any{},
		"OS-EXT-AZ:availability_zone": Zone,
		"created":                     m.created.UTC().Format(time.RFC3339), "user_id": "u", "tenant_id": projectID,
	}
	if m.status == "ACTIVE" {
		item["OS-EXT-STS:power_state"] = 1
		fixed := m.batch.Address(m.at)
		addresses := []any{map[string]any{"addr": fixed, "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}}
		item["addresses"] = map[string]any{m.network: addresses} // floating ones come later, from a cache
	}
	if m.task != "" {
		item["OS-EXT-STS:task_state"] = m.task
	}
	if m.fault != "" {
		item["fault"] = map[string]any{"code": 500, "message": m.fault, "created": "2026-11-27T18:00:00Z"}
	}
	return item
}

func (s *Server) find(id string) *server {
	for _, m := range s.servers {
		if m.id == id {
			return m
		}
	}
	return nil
}

// RemoveMachines ends all machines, as their user does.
func (s *Server) RemoveMachines() {
	s.locked(func() {
		for _, m := range slices.Clone(s.servers) {
			nova{s}.end(m)
		}
	})
}

func (c nova) endServer(r *http.Request, _ map[string]any) (int, any, error) {
	m := c.s.find(r.PathValue("id"))
	if m == nil {
		return 0, nil, fail(http.StatusNotFound, "Instance %s could not be found.", r.PathValue("id"))
	}
	c.end(m)
	return http.StatusNoContent, nil, nil
}

// end begins the end of a machine.
func (c nova) end(m *server) {
	c.s.acted(m.id, "delete", projectID)
	switch {
	case m.removed:
	case m.batch == nil, m.status == "SHUTOFF":
		c.drop(m)
	default:
		m.removed, m.task = true, "deleting"
		m.batch.End(m.at)
	}
}

func (c nova) action(r *http.Request, body map[string]any) (int, any, error) {
	m := c.s.find(r.PathValue("id"))
	if m == nil || m.batch == nil {
		return 0, nil, fail(http.StatusNotFound, "Instance %s could not be found.", r.PathValue("id"))
	}
	if _, is := body["os-stop"]; is {
		if m.status != "ACTIVE" {
			return 0, nil, fail(http.StatusConflict, "Cannot 'stop' instance %s while it is in vm_state %s", m.id, m.status)
		}
		m.task = "powering-off"
		c.s.acted(m.id, "stop", projectID)
		m.batch.End(m.at)
		return http.StatusAccepted, nil, nil
	}
	if _, is := body["os-getConsoleOutput"]; !is {
		return 0, nil, fail(http.StatusBadRequest, "There is no such action: %v", body)
	}
	return http.StatusOK, map[string]any{"output": m.batch.Console(m.at)}, nil
}

// Named is how many machines have a name that matches a pattern, as Nova compares it.
func (s *Server) Named(pattern string) (n int, err error) {
	name, err := regexp.Compile(pattern)
	s.locked(func() {
		for _, m := range s.servers {
			if err == nil && name.MatchString(m.name) {
				n++
			}
		}
	})
	return n, err
}

// listActions answers with what was done to a machine, the newest first. Older versions know no machine that is deleted.
func (c nova) listActions(r *http.Request, _ map[string]any) (int, any, error) {
	id := r.PathValue("id")
	actions, known := c.s.actions[id]
	if !known || c.s.find(id) == nil && r.Header.Get("OpenStack-API-Version") != "compute 2.21" {
		return 0, nil, fail(http.StatusNotFound, "Instance %s could not be found.", id)
	}
	return http.StatusOK, map[string]any{"instanceActions": actions}, nil
}

// acted notes an action on a machine in the name of a project; "": Nova's own.
func (s *Server) acted(id, action, project string) {
	item := map[string]any{"action": action, "instance_uuid": id, "request_id": s.id("req"), "user_id": nil, "project_id": nil, "start_time": time.Now().UTC().Format("2006-01-02T15:04:05.000000"), "message": nil}
	if project != "" {
		item["user_id"], item["project_id"] = "u", project
	}
	s.actions[id] = append([]any{item}, s.actions[id]...)
}

// Lose ends all machines as operators may do behind one's back.
func (s *Server) Lose() {
	s.locked(func() {
		for _, m := range s.servers {
			if m.batch != nil && !m.removed {
				m.removed, m.task = true, "deleting"
				s.acted(m.id, "delete", "operators")
				m.batch.End(m.at)
			}
		}
	})
}

// Console is what the machines have written to theirs.
func (s *Server) Console() (all string) {
	s.locked(func() {
		for _, m := range s.servers {
			if m.batch != nil {
				all += m.batch.Console(m.at)
			}
		}
	})
	return all
}
