// Package ec2server gives tests an EC2 on loopback: a server of EC2's query protocol for the
// actions that bee uses, whose machines are those of package machines. It needs no root.
//
// It models what matters to a client that rents machines: signatures, client tokens, dry runs, lists that are late,
// capacity, quotas, rights, groups in use, and machines that end behind one's back. It knows nothing of bee.
package ec2server

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/machines"
)

// Region is the server's, with two zones.
const Region = "us-test-1"

// The server's credentials.
const (
	Access = "AKIDBEETESTACCESS"
	Secret = "bee-test-secret-of-ec2"
	// Expired is a session token that has expired.
	Expired = "bee-test-session-over"
)

// Server is a running server.
type Server struct {
	*machines.Park

	url string

	mu         sync.Mutex
	instances  []*instance
	groups     map[string]*group
	places     map[string]*place
	volumes    []*volume
	snapshots  []*snapshot
	registered []*imageItem
	imagesMade map[string]time.Time
	unknown    int  // calls for blocks that do not know a new snapshot
	damaged    bool // the next block is
	broken     bool // the next snapshot that is complete is
	launches   map[string]*launch
	denied     map[string]bool
	faults     map[string][]fault
	full       map[string]bool         // TYPE ZONE without capacity, perhaps after spot or cluster
	params     map[string][]url.Values // of the calls of an action
	late       time.Duration
	bastion    string // the public address of a machine of the user's, or ""
	quota      int
	calls      map[string]int
	serial     int
}

// group is a security group.
type group struct {
	id, name, vpc string
	tags          map[string]string
	rules         []string
	made          time.Time
}

// fault is an answer to the next call of an action.
type fault struct {
	code, message string
	status        int
	// done is set where the call is carried out nevertheless.
	done bool
}

// apiVersion is that of EC2's API.
const apiVersion = "2016-11-15"

// Statuses of faults without an answer: the connection is closed, or it stays open until the client closes it.
const (
	dropped = 0
	Hung    = -1
)

// apiError is an error in an answer.
type apiError struct {
	Code, Message string
	status        int
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

func fail(code, format string, args ...any) error {
	return &apiError{code, fmt.Sprintf(format, args...), http.StatusBadRequest}
}

// Start starts a server. It, and its machines, end with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Park: machines.New(t), groups: map[string]*group{}, places: map[string]*place{}, params: map[string][]url.Values{}, launches: map[string]*launch{}, imagesMade: map[string]time.Time{}, denied: map[string]bool{},
		faults: map[string][]fault{}, full: map[string]bool{}, quota: 64, calls: map[string]int{},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { server.Close() })
	return s
}

// Env are the variables by which AWS's tools find the server and nothing else, KEY=VALUE.
func (s *Server) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL_EC2=" + s.url, "AWS_ENDPOINT_URL_PRICING=" + s.url, "AWS_ENDPOINT_URL_EBS=" + s.url, "AWS_ACCESS_KEY_ID=" + Access, "AWS_SECRET_ACCESS_KEY=" + Secret, "AWS_REGION=" + Region,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PROFILE=", "AWS_SESSION_TOKEN=",
	}
}

// Use has this process find the server by its variables, as users set theirs.
func (s *Server) Use(t testing.TB) {
	t.Helper()
	testkit.Setenv(t, s.Env())
}

// Deny has an action refused for want of the right.
func (s *Server) Deny(action string) { s.locked(func() { s.denied[action] = true }) }

// Allow has an action allowed again.
func (s *Server) Allow(action string) { s.locked(func() { delete(s.denied, action) }) }

// Full has a type in a zone without capacity; "spot TYPE" and "cluster TYPE": as spot machines, in clusters.
func (s *Server) Full(machineType, zone string) {
	s.locked(func() { s.full[machineType+" "+zone] = true })
}

// BastionInside is the private address of the bastion.
const BastionInside = "10.99.0.7"

// Bastion has the user have a machine in the region with a public address, through which others are reached: the options
// are those by which ssh logs in to it.
func (s *Server) Bastion(t testing.TB, address string) map[string]string {
	t.Helper()
	options := s.Park.Bastion(t, address)
	s.locked(func() { s.bastion = address })
	return options
}

// Late has new machines and groups listed only that long after they were made.
func (s *Server) Late(d time.Duration) { s.locked(func() { s.late = d }) }

// Fail has the next call of an action answered with an error; done: after it was carried out.
func (s *Server) Fail(action, code string, status int, done bool) {
	s.locked(func() { s.faults[action] = append(s.faults[action], fault{code, "as the test wants it", status, done}) })
}

// Drop closes the connection of the next call of an action without an answer; done: after it was carried out.
func (s *Server) Drop(action string, done bool) { s.Fail(action, "Dropped", dropped, done) }

// unanswered ends a call that a fault has left without an answer.
func unanswered(r *http.Request, err error) {
	e, is := errors.AsType[*apiError](err)
	if is && e.status == Hung {
		<-r.Context().Done()
	}
	if is && e.status <= dropped {
		panic(http.ErrAbortHandler)
	}
}

// Calls is how often an action was called; "": any of them.
func (s *Server) Calls(action string) (n int) {
	s.locked(func() {
		for name, calls := range s.calls {
			if action == "" || name == action {
				n += calls
			}
		}
	})
	return n
}

// Params are the parameters of the calls of an action, without those of all calls.
func (s *Server) Params(action string) (all []url.Values) {
	s.locked(func() {
		for _, p := range s.params[action] {
			p = maps.Clone(p)
			for _, common := range []string{"Action", "Version"} {
				p.Del(common)
			}
			all = append(all, p)
		}
	})
	return all
}

// Count is how many objects the server lists by a call with filters: their names, each with its values.
func (s *Server) Count(action string, filters ...[]string) (int, error) {
	params := url.Values{}
	for i, f := range filters {
		params.Set(fmt.Sprintf("Filter.%d.Name", i+1), f[0])
		for n, value := range f[1:] {
			params.Set(fmt.Sprintf("Filter.%d.Value.%d", i+1, n+1), value)
		}
	}
	params.Set("Version", apiVersion)
	reply, err := s.do(action, params)
	raw, merr := xml.Marshal(reply)
	return strings.Count(string(raw), "<groupName>") + strings.Count(string(raw), "<volumeId>") + strings.Count(string(raw), "<instanceState>"), errors.Join(err, merr)
}

// Left lists what costs money or is in the way: machines that have not ended, groups, placement groups, and volumes that
// outlive their machine.
func (s *Server) Left() (left []string) {
	s.locked(func() {
		for _, i := range s.instances {
			if i.state != terminated {
				left = append(left, i.id+" "+i.state)
			}
		}
		for id := range s.groups {
			left = append(left, id)
		}
		for name, p := range s.places {
			left = append(left, "placement "+p.strategy+" "+name)
		}
		for _, v := range s.volumes {
			if !v.gone() && !v.ends {
				left = append(left, v.id+" "+v.disk+" of "+v.of.id)
			}
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

// serve answers one call.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := verify(r, time.Now())
	if strings.HasPrefix(r.URL.Path, blocksPath) {
		blocks{s}.serve(w, r, body, err)
		return
	}
	if err != nil {
		answer(w, "", nil, err)
		return
	}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		prices{s}.serve(w, target, body)
		return
	}
	params, err := url.ParseQuery(string(body))
	if err != nil {
		answer(w, "", nil, fail("MalformedQueryString", "%v", err))
		return
	}
	action := params.Get("Action")
	reply, err := s.do(action, params)
	unanswered(r, err)
	answer(w, action, reply, err)
}

func (s *Server) do(action string, params url.Values) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[action]++
	s.params[action] = append(s.params[action], params)
	f, known := s.actions()[action]
	switch {
	case params.Get("Version") != apiVersion:
		return nil, fail("InvalidVersion", "%q", params.Get("Version"))
	case !known:
		return nil, fail("InvalidAction", "the action %s is not valid for this web service", action)
	case s.denied[action]:
		return nil, &apiError{"UnauthorizedOperation", "You are not authorized to perform this operation.", http.StatusForbidden}
	}
	if queue := s.faults[action]; len(queue) > 0 && params.Get("DryRun") == "" {
		s.faults[action] = queue[1:]
		if queue[0].done {
			if _, err := f(params); err != nil {
				return nil, err
			}
		}
		return nil, &apiError{queue[0].code, queue[0].message, queue[0].status}
	}
	return f(params)
}

// Actions are those of EC2 that the server knows; of the price list it knows GetProducts, and of EBS BlockActions.
func Actions() []string { return slices.Sorted(maps.Keys((&Server{}).actions())) }

func (s *Server) actions() map[string]func(url.Values) (any, error) {
	return map[string]func(url.Values) (any, error){
		"RunInstances": s.runInstances, "DescribeInstances": s.describeInstances, "TerminateInstances": s.terminateInstances, "StopInstances": s.stopInstances,
		"GetConsoleOutput": s.consoleOutput, "DescribeInstanceTypes": s.describeTypes, "DescribeInstanceTypeOfferings": s.describeOfferings,
		"DescribeImages": s.describeImages, "DescribeSubnets": s.describeSubnets, "DescribeSpotPriceHistory": prices{s}.spot,
		"DescribeVolumes": volumes{s}.describe, "DeleteVolume": volumes{s}.delete,
		"CreateSecurityGroup": groups{s}.create, "AuthorizeSecurityGroupIngress": groups{s}.authorize,
		"DescribeSecurityGroups": groups{s}.describe, "DeleteSecurityGroup": groups{s}.delete,
		"CreatePlacementGroup": places{s}.create, "DeletePlacementGroup": places{s}.delete,
		"DescribeSnapshots": snapshots{s}.describe, "DeleteSnapshot": snapshots{s}.delete,
		"RegisterImage": snapshots{s}.register, "DeregisterImage": snapshots{s}.deregister, "CreateTags": snapshots{s}.createTags,
	}
}

// answer writes an answer as EC2 does.
func answer(w http.ResponseWriter, action string, reply any, err error) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	if e, is := err.(*apiError); is { //nolint:errorlint // the server's own, bare
		w.WriteHeader(e.status)
		type item struct{ Code, Message string }
		encode(w, struct {
			XMLName xml.Name `xml:"Response"`
			Errors  []item   `xml:"Errors>Error"`
			ID      string   `xml:"RequestID"`
		}{Errors: []item{{e.Code, e.Message}}, ID: "test"})
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "<%sResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>test</requestId>", action) //nolint:errcheck // the client has gone
	encode(w, reply)
	fmt.Fprintf(w, "</%sResponse>", action) //nolint:errcheck // see above
}

// encode writes the fields of a struct, without an element around them where its type has no name.
func encode(w http.ResponseWriter, v any) {
	raw, err := xml.Marshal(v)
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	text := string(raw)
	if strings.HasPrefix(text, "<bare>") {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "<bare>"), "</bare>")
	}
	fmt.Fprint(w, text) //nolint:errcheck // the client has gone
}

// bare marks the struct of an answer.
type bare struct {
	XMLName xml.Name `xml:"bare"`
}

// done is the answer of a call that only does something.
func done() any {
	return struct {
		bare
		Return bool `xml:"return"`
	}{Return: true}
}

// list returns the values of PREFIX.1, PREFIX.2, ….
func list(params url.Values, prefix string) (values []string) {
	for i := 1; params.Has(prefix + "." + strconv.Itoa(i)); i++ {
		values = append(values, params.Get(prefix+"."+strconv.Itoa(i)))
	}
	return values
}

// tagsFor returns the tags that a call sets on a type of object.
func tagsFor(params url.Values, object string) map[string]string {
	tags := map[string]string{}
	for i := 1; params.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", i)); i++ {
		at := fmt.Sprintf("TagSpecification.%d.", i)
		if params.Get(at+"ResourceType") != object {
			continue
		}
		for n := 1; params.Has(fmt.Sprintf("%sTag.%d.Key", at, n)); n++ {
			tags[params.Get(fmt.Sprintf("%sTag.%d.Key", at, n))] = params.Get(fmt.Sprintf("%sTag.%d.Value", at, n))
		}
	}
	return tags
}

// passes reports whether an object with such attributes and tags passes the filters of a call.
func passes(params url.Values, attributes, tags map[string]string) (bool, error) {
	for i := 1; params.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name := params.Get(fmt.Sprintf("Filter.%d.Name", i))
		have, known := attributes[name]
		if key, is := strings.CutPrefix(name, "tag:"); is {
			have, known = tags[key], true
		}
		if values := list(params, fmt.Sprintf("Filter.%d.Value", i)); name == "tag-key" && len(values) == 1 {
			known = true
			if _, is := tags[values[0]]; is {
				have = values[0]
			}
		}
		if !known {
			return false, fail("InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		if !slices.ContainsFunc(list(params, fmt.Sprintf("Filter.%d.Value", i)), func(want string) bool {
			is, err := filepath.Match(strings.ReplaceAll(want, "/", "|"), strings.ReplaceAll(have, "/", "|"))
			return err == nil && is
		}) {
			return false, nil
		}
	}
	return true, nil
}

// tagItem is a tag in an answer.
type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagItems(tags map[string]string) (items []tagItem) {
	for k, v := range tags {
		items = append(items, tagItem{k, v})
	}
	return items
}

// dryRun is the answer to a call that only tries.
func dryRun(params url.Values) error {
	if params.Get("DryRun") != "true" {
		return nil
	}
	return &apiError{"DryRunOperation", "Request would have succeeded, but DryRun flag is set.", http.StatusPreconditionFailed}
}

func (s *Server) id(kind string) string {
	s.serial++
	return fmt.Sprintf("%s-%017x", kind, s.serial)
}
