package openstack

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/gophercloud/gophercloud/v2"
)

// Services, by their type in Keystone's catalog. A version of one follows its type, as in the header of calls.
const (
	compute = "compute"
	network = "network"
	images  = "image"
	blazar  = "reservation"
)

// versions are the ends of addresses that calls are relative to, and that catalogs may leave out.
var versions = map[string]string{network: "v2.0", images: "v2", blazar: "v1"}

// client speaks with the services of one cloud. gophercloud finds credentials and services, and logs in
// again when a token has expired.
type client struct {
	name, region string

	mu      sync.Mutex
	session *session // nil: not logged in yet, or to be logged in again
}

func newClient(name, region string) *client { return &client{name: name, region: region} }

// tries is how often a call is made that fails for a passing reason.
const tries = 5

func (c *client) login(ctx context.Context) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		return c.session, nil
	}
	var err error
	pause := pauses()
	for try := 1; ; try++ {
		c.session, err = login(ctx, c.name, c.region)
		if try == tries || !core.IsKind(err, core.Transient) {
			return c.session, err
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// forget has the next call log in again where the given session is still in use: credentials in files may be newer.
func (c *client) forget(old *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == old {
		c.session = nil
	}
}

// pauses are those before a call is made again.
func pauses() fsutil.Backoff {
	return fsutil.Backoff{First: 300 * time.Millisecond, Longest: 5 * time.Second}
}

// Methods of calls.
const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

// call makes a call to a service, and decodes its answer where into is not nil. It is made again where its error
// passes, with pauses; one that makes something only where it was not carried out.
func (c *client) call(ctx context.Context, service, method, path string, body, into any) error {
	renewed, pause := false, pauses()
	for try := 1; ; try++ {
		s, err := c.login(ctx)
		if err != nil {
			return err
		}
		err = s.try(ctx, service, method, path, body, into)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		status := statusOf(err)
		if status == http.StatusUnauthorized {
			c.forget(s)
			if !renewed {
				renewed = true
				continue
			}
		}
		err = explain(method+" "+service+" "+strings.SplitN(path, "?", 2)[0], err)
		_, long := body.(*upload) // which is not sent twice
		if try >= tries || long || !core.IsKind(err, core.Transient) || method == post && status != http.StatusTooManyRequests {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func (s *session) try(ctx context.Context, service, method, path string, body, into any) error {
	name, version, _ := strings.Cut(service, " ")
	endpoint, err := s.endpoint(name)
	if err != nil {
		return err
	}
	options := &gophercloud.RequestOpts{JSONBody: body, JSONResponse: into, OkCodes: []int{200, 201, 202, 203, 204}}
	switch content := body.(type) {
	case *upload:
		var end func()
		ctx, end = content.watched(ctx)
		defer end()
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return err
		}
		options.JSONBody, options.RawBody = nil, content
		options.MoreHeaders = map[string]string{"Content-Type": "application/octet-stream", contentLength: strconv.FormatInt(content.size, 10)}
	case []change:
		options.MoreHeaders = map[string]string{"Content-Type": "application/openstack-images-v2.1-json-patch"}
	}
	if version != "" {
		options.MoreHeaders = map[string]string{"OpenStack-API-Version": service}
	}
	if into == nil {
		options.JSONResponse = nil
	}
	if _, long := body.(*upload); !long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	_, err = s.provider.Request(ctx, method, endpoint+path, options)
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return &core.Error{Kind: core.Transient, Op: "upload to", Object: endpoint + path, Err: cause, Remedy: "Does the cloud answer (the network)? Push again later."}
	}
	return err
}

// errNoService is the cause where a cloud lacks a service.
var errNoService = errors.New("the cloud's catalog has no such service in the region")

// endpoint returns the address of a service with its version.
func (s *session) endpoint(service string) (string, error) {
	options := s.endpoints
	options.ApplyDefaults(service)
	at, err := s.provider.EndpointLocator(options)
	if err != nil {
		return "", errors.Join(errNoService, err)
	}
	at = strings.TrimSuffix(at, "/")
	if v := versions[service]; v != "" && !strings.HasSuffix(at, "/"+v) {
		at += "/" + v
	}
	return at + "/", nil
}

// idForm is the form of ids that become part of an address. The bound is not in the pattern:
// every start of bee would take half a millisecond to unfold it.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

const longestID = 255

// isID reports whether a text can be an id in an address.
func isID(text string) bool {
	return len(text) <= longestID && idForm.MatchString(text) && strings.Trim(text, ".") != ""
}

// checkID refuses an operation on an object whose id cannot be in an address.
func checkID(op, id string) error {
	if isID(id) {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: op, Object: core.Printable(id, 80), Err: errors.New("it is no id"), Remedy: "The cloud answers with ids of another form: report that to its operators."}
}

// pages is how many pages of an answer are read at most.
const pages = 1000

// link is a link in an answer with pages.
type link struct {
	Rel string `json:"rel"`
}

// list returns what all pages of an answer have. read returns what a page has, and whether there is another;
// id is that of an item.
func list[Page, Item any](ctx context.Context, c *client, service, path string, query url.Values, read func(Page) (items []Item, more bool), id func(Item) string) ([]Item, error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", "1000")
	var all []Item
	for range pages {
		var page Page
		if err := c.call(ctx, service, get, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		items, more := read(page)
		all = append(all, items...)
		if !more || len(items) == 0 {
			break
		}
		query.Set("marker", id(items[len(items)-1]))
	}
	return all, nil
}

// hasNext reports whether the links of a page have one to the next.
func hasNext(links []link) bool {
	for _, l := range links {
		if l.Rel == "next" {
			return true
		}
	}
	return false
}
