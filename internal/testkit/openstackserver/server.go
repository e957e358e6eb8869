// Package openstackserver gives tests an OpenStack on loopback: one HTTP server that answers as Keystone, Nova,
// Neutron, Glance and Blazar do for the calls that bee makes, whose machines are those of package machines. It needs no root.
//
// The forms of its answers were taken from the real services. What it models is what matters to a client that
// rents machines: tokens, machines of which a part ends in ERROR, quotas, names that exist twice, addresses that are
// attached late, groups in use, answers that are lost. It knows nothing of bee.
package openstackserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/machines"
)

// The server's credentials: those of a user, and an application credential.
const (
	Username = "ann"
	Password = "bee-test-password"
	Project  = "cfd"
	Region   = "RegionOne"
	Cloud    = "test"
	AppID    = "a9f0application"
	Secret   = "bee-test-secret-of-openstack"
)

// Server is a running server.
type Server struct {
	*machines.Park

	url, dir string

	mu       sync.Mutex
	tokens   map[string]bool
	servers  []*server
	groups   []*group
	places   []*serverGroup
	floating []*address
	leases   []*lease
	images   []imageItem
	contents map[string][]byte // of images, their beginning
	damaged  bool              // the next image is
	actions  map[string][]any  // what was done to each machine, the newest first
	faults   map[string][]fault
	broken   int                         // how many machines of the next request end in ERROR
	full     map[string]int              // how many requests for a flavor find no host
	pool     int                         // floating addresses that are free
	quota    int                         // of machines
	members  int                         // quota of machines in a server group
	bodies   map[string][]map[string]any // of the calls of a kind
	held     bool                        // machines boot for ever
	limited  bool                        // Keystone lets Blazar not act for users
	bastion  string                      // the floating address of a machine of the user's, or ""
	calls    map[string]int
	serial   int
}

// fault is an answer to the next call of a kind.
type fault struct {
	status int // 0: the connection is closed without an answer
	done   bool
}

// apiError is an error in an answer, in the form of the service that it is of.
type apiError struct {
	status  int
	kind    string // of Neutron
	message string
}

func (e *apiError) Error() string { return e.message }

func fail(status int, format string, args ...any) error {
	return &apiError{status: status, message: fmt.Sprintf(format, args...)}
}

func refuse(status int, kind, format string, args ...any) error {
	return &apiError{status, kind, fmt.Sprintf(format, args...)}
}

// Start starts a server. It, and its machines, end with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Park: machines.New(t), dir: t.TempDir(), tokens: map[string]bool{}, faults: map[string][]fault{}, actions: map[string][]any{}, contents: map[string][]byte{}, full: map[string]int{}, pool: 8, quota: 8, members: 10, bodies: map[string][]map[string]any{}, calls: map[string]int{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { server.Close() })
	text := fmt.Sprintf(`clouds:
  %s:
    auth_type: v3applicationcredential
    auth: {auth_url: %s/identity/v3, application_credential_id: %s, application_credential_secret: %s}
    region_name: %s
`, Cloud, s.url, AppID, Secret, Region)
	if err := os.WriteFile(s.CloudsFile(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// CloudsFile is a clouds.yaml whose cloud is the server.
func (s *Server) CloudsFile() string { return filepath.Join(s.dir, "clouds.yaml") }

// URL is the address of Keystone.
func (s *Server) URL() string { return s.url + "/identity" }

// Env are the variables by which OpenStack's clients find the server, and nothing else, KEY=VALUE.
func (s *Server) Env() []string {
	env := []string{"OS_CLIENT_CONFIG_FILE=" + s.CloudsFile(), "OS_CLOUD=" + Cloud}
	for _, name := range []string{"AUTH_URL", "USERNAME", "PASSWORD", "PROJECT_NAME", "PROJECT_ID", "TOKEN", "REGION_NAME", "INTERFACE"} {
		env = append(env, "OS_"+name+"=")
	}
	return env
}

// Use has this process find the server by its variables, as users set theirs.
func (s *Server) Use(t testing.TB) {
	t.Helper()
	testkit.Setenv(t, s.Env())
}

// Break has a number of machines of the next request end in ERROR.
func (s *Server) Break(n int) { s.locked(func() { s.broken = n }) }

// Restrict has Keystone let Blazar not act for the users of application credentials: it makes no leases then.
func (s *Server) Restrict() { s.locked(func() { s.limited = true }) }

// Full has the next requests for a flavor find no host; "POLICY FLAVOR": all requests in server groups of that policy.
func (s *Server) Full(flavor string, requests int) { s.locked(func() { s.full[flavor] = requests }) }

// Addresses sets how many floating addresses are free.
func (s *Server) Addresses(n int) { s.locked(func() { s.pool = n }) }

// BastionInside is the address of the bastion in its network.
const BastionInside = "10.99.0.7"

// Bastion has the user have a machine in the project with a floating address, through which others are reached: the options
// are those by which ssh logs in to it.
func (s *Server) Bastion(t testing.TB, address string) map[string]string {
	t.Helper()
	options := s.Park.Bastion(t, address)
	s.locked(func() { s.bastion = address })
	return options
}

// Hold has machines boot for ever from now on, or not any more.
func (s *Server) Hold(is bool) { s.locked(func() { s.held = is }) }

// Quota sets the quota of machines.
func (s *Server) Quota(n int) { s.locked(func() { s.quota = n }) }

// Members sets the quota of machines in a server group.
func (s *Server) Members(n int) { s.locked(func() { s.members = n }) }

// Bodies are those of the calls of a kind, as JSON with indents.
func (s *Server) Bodies(call string) (all []string) {
	s.locked(func() {
		for _, body := range s.bodies[call] {
			raw, err := json.MarshalIndent(body, "", "  ")
			if err != nil {
				panic(err) // it was JSON
			}
			all = append(all, string(raw))
		}
	})
	return all
}

// Expire has all tokens expire.
func (s *Server) Expire() { s.locked(func() { clear(s.tokens) }) }

// Fail has the next call of a kind, such as "POST /compute/v2.1/servers", answered with a status; done: after it was
// carried out.
func (s *Server) Fail(call string, status int, done bool) {
	s.locked(func() { s.faults[call] = append(s.faults[call], fault{status, done}) })
}

// Drop closes the connection of the next call of a kind without an answer; done: after it was carried out.
func (s *Server) Drop(call string, done bool) { s.Fail(call, 0, done) }

// Calls is how often a kind of call was made.
func (s *Server) Calls(call string) (n int) {
	s.locked(func() { n = s.calls[call] })
	return n
}

// Left lists what there is in the project: machines, groups, server groups, floating addresses and leases.
func (s *Server) Left() (left []string) {
	s.locked(func() {
		for _, m := range s.servers {
			left = append(left, "server "+m.name+" "+m.status)
		}
		for _, g := range s.groups {
			left = append(left, "group "+g.name)
		}
		for _, p := range s.places {
			left = append(left, "placement "+p.name+" "+p.policy)
		}
		for _, a := range s.floating {
			left = append(left, "floating "+a.address)
		}
		for _, l := range s.leases {
			left = append(left, "lease "+l.name+" "+l.status)
		}
	})
	slices.Sort(left)
	return left
}

func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *Server) id(kind string) string {
	s.serial++
	return fmt.Sprintf("%s-%04d-%012x", kind, s.serial, s.serial*7919)
}

// handler answers one kind of call.
type handler func(r *http.Request, body map[string]any) (status int, reply any, err error)

// routes are all calls that the server knows.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /identity/v3/auth/tokens", s.login)
	mux.HandleFunc("GET /identity/{$}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{map[string]any{
			"id": "v3.14", "status": "stable", "links": []any{map[string]any{"rel": "self", "href": s.url + "/identity/v3/"}},
		}}}})
	})
	compute, network, images, leases := nova{s}, neutron{s}, glance{s}, blazar{s}
	for pattern, h := range map[string]handler{
		"GET /compute/v2.1/flavors/detail":       compute.listFlavors,
		"GET /compute/v2.1/os-availability-zone": compute.listZones,
		"GET /compute/v2.1/limits":               compute.limits,
		"GET /compute/v2.1/servers/detail":       compute.listServers,
		"POST /compute/v2.1/servers":             compute.makeServers,
		"DELETE /compute/v2.1/servers/{id}":      compute.endServer,
		"POST /compute/v2.1/servers/{id}/action": compute.action,

		"GET /compute/v2.1/servers/{id}/os-instance-actions": compute.listActions,

		"GET /compute/v2.1/os-server-groups":         compute.listPlaces,
		"POST /compute/v2.1/os-server-groups":        compute.makePlace,
		"DELETE /compute/v2.1/os-server-groups/{id}": compute.endPlace,

		"GET /network/v2.0/networks":                network.listNetworks,
		"GET /network/v2.0/ports":                   network.listPorts,
		"GET /network/v2.0/security-groups":         network.listGroups,
		"GET /network/v2.0/security-groups/{id}":    network.showGroup,
		"POST /network/v2.0/security-groups":        network.makeGroup,
		"DELETE /network/v2.0/security-groups/{id}": network.endGroup,
		"POST /network/v2.0/security-group-rules":   network.makeRule,
		"GET /network/v2.0/floatingips":             network.listFloating,
		"POST /network/v2.0/floatingips":            network.makeFloating,
		"PUT /network/v2.0/floatingips/{id}":        network.attachFloating,
		"DELETE /network/v2.0/floatingips/{id}":     network.endFloating,

		"GET /reservation/v1/leases":         leases.listLeases,
		"POST /reservation/v1/leases":        leases.makeLease,
		"GET /reservation/v1/leases/{id}":    leases.showLease,
		"PUT /reservation/v1/leases/{id}":    leases.moveLease,
		"DELETE /reservation/v1/leases/{id}": leases.endLease,

		"GET /image/v2/images":         images.listImages,
		"POST /image/v2/images":        images.makeImage,
		"GET /image/v2/images/{id}":    images.showImage,
		"PATCH /image/v2/images/{id}":  images.changeImage,
		"DELETE /image/v2/images/{id}": images.endImage,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, pattern, h) })
	}
	mux.HandleFunc("PUT /image/v2/images/{id}/file", images.storeImage)
	return mux
}

// answer answers a call of a logged-in user.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, pattern string, h handler) {
	body, err := bodyOf(r)
	if err != nil {
		write(w, http.StatusBadRequest, map[string]any{"badRequest": map[string]any{"message": err.Error(), "code": 400}})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[pattern]++
	s.bodies[pattern] = append(s.bodies[pattern], body)
	if !s.tokens[r.Header.Get("X-Auth-Token")] {
		write(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}})
		return
	}
	if queue := s.faults[pattern]; len(queue) > 0 {
		s.faults[pattern] = queue[1:]
		if queue[0].done {
			if _, _, err := h(r, body); err != nil {
				write(w, http.StatusInternalServerError, nil)
				return
			}
		}
		if queue[0].status == 0 {
			panic(http.ErrAbortHandler)
		}
		write(w, queue[0].status, map[string]any{"computeFault": map[string]any{"code": queue[0].status, "message": "as the test wants it"}})
		return
	}
	status, reply, err := h(r, body)
	var e *apiError
	switch {
	case err == nil:
		write(w, status, reply)
	case !errors.As(err, &e):
		write(w, http.StatusInternalServerError, map[string]any{"computeFault": map[string]any{"code": 500, "message": err.Error()}})
	case e.kind == "blazar":
		write(w, e.status, map[string]any{"error_code": e.status, "error_message": e.message, "error_name": e.status})
	case e.kind != "":
		write(w, e.status, map[string]any{"NeutronError": map[string]any{"type": e.kind, "message": e.message, "detail": ""}})
	default:
		names := map[int]string{400: "badRequest", 403: "forbidden", 404: "itemNotFound", 409: "conflictingRequest"}
		write(w, e.status, map[string]any{names[e.status]: map[string]any{"code": e.status, "message": e.message}})
	}
}

func write(w http.ResponseWriter, status int, reply any) {
	if reply == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(reply) //nolint:errcheck // the client has gone
}

// login is Keystone: tokens of a password of the project, and of an application credential.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						Name, Password string
						Domain         struct{ Name string }
					}
				}
				Application struct{ ID, Secret string } `json:"application_credential"`
			}
			Scope *struct {
				Project struct {
					Name   string
					Domain struct{ Name string }
				}
			}
		}
	}
	err := json.NewDecoder(r.Body).Decode(&q)
	user, app := q.Auth.Identity.Password.User, q.Auth.Identity.Application
	var allowed bool
	switch strings.Join(q.Auth.Identity.Methods, " ") {
	case "password":
		scope := q.Auth.Scope
		allowed = user.Name == Username && user.Password == Password && user.Domain.Name == "Default" && scope != nil && scope.Project.Name == Project && scope.Project.Domain.Name == "Default"
	case "application_credential": // it has its project, and takes no other
		allowed = app.ID == AppID && app.Secret == Secret && q.Auth.Scope == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["POST /identity/v3/auth/tokens"]++
	if err != nil || !allowed {
		write(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}})
		return
	}
	token := s.id("token")
	s.tokens[token] = true
	var catalog []any
	for kind, path := range map[string]string{"compute": "/compute/v2.1", "network": "/network", "image": "/image", "reservation": "/reservation/v1"} {
		catalog = append(catalog, map[string]any{"type": kind, "name": kind, "endpoints": []any{
			map[string]any{"id": kind, "interface": "public", "region": Region, "region_id": Region, "url": s.url + path},
		}})
	}
	w.Header().Set("X-Subject-Token", token)
	write(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"methods": q.Auth.Identity.Methods, "expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"), "catalog": catalog,
		"project": map[string]any{"id": projectID, "name": Project, "domain": map[string]any{"id": "default", "name": "Default"}},
	}})
}

// projectID is the id of the project.
const projectID = "0123456789abcdef0123456789abcdef"
