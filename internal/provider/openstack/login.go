package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/gophercloud/gophercloud/v2"
	openstacksdk "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

const (
	// mostAnswer bounds an answer in bytes.
	mostAnswer = 64 << 20
	// callTime bounds one try of a call.
	callTime = time.Minute
)

// session is a login to a cloud. Its credentials and its token are kept in memory only.
type session struct {
	provider  *gophercloud.ProviderClient
	endpoints gophercloud.EndpointOpts
	// project is the id of the project, or "" where the cloud does not report one.
	project string
	// delegated is whether the login is by an application credential, with which Keystone lets few services act for its user.
	delegated bool
}

// fromVariables is the name of the cloud that the OS_* variables describe, as OpenStack's own client has it.
const fromVariables = "envvars"

// variables returns a clouds.yaml of the OS_* variables, or "" where they describe no cloud.
func variables() string {
	if os.Getenv("OS_AUTH_URL") == "" {
		return ""
	}
	auth := map[string]string{}
	for _, name := range []string{
		"AUTH_URL", "USERNAME", "USER_ID", "PASSWORD", "TOKEN", "PROJECT_ID", "PROJECT_NAME", "DOMAIN_ID", "DOMAIN_NAME", "USER_DOMAIN_ID", "USER_DOMAIN_NAME",
		"PROJECT_DOMAIN_ID", "PROJECT_DOMAIN_NAME", "APPLICATION_CREDENTIAL_ID", "APPLICATION_CREDENTIAL_NAME", "APPLICATION_CREDENTIAL_SECRET",
	} {
		if value := os.Getenv("OS_" + name); value != "" {
			auth[strings.ToLower(name)] = value
		}
	}
	for old, key := range map[string]string{"OS_USERID": "user_id", "OS_TENANT_ID": "project_id", "OS_TENANT_NAME": "project_name"} {
		if value := os.Getenv(old); value != "" && auth[key] == "" {
			auth[key] = value
		}
	}
	cloud := map[string]any{"auth": auth, "cacert": os.Getenv("OS_CACERT"), "cert": os.Getenv("OS_CERT"), "key": os.Getenv("OS_KEY")}
	raw, err := json.Marshal(map[string]any{"clouds": map[string]any{fromVariables: cloud}}) // which is YAML, too
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	return string(raw)
}

// parse finds the credentials as OpenStack's own client does.
func parse(name, region string) (gophercloud.AuthOptions, gophercloud.EndpointOpts, http.RoundTripper, error) {
	var options []clouds.ParseOption
	if region != "" {
		options = append(options, clouds.WithRegion(region))
	}
	switch text := variables(); {
	case name != "":
		options = append(options, clouds.WithCloudName(name))
	case os.Getenv("OS_CLOUD") == "" && text != "":
		options = append(options, clouds.WithCloudName(fromVariables), clouds.WithCloudsYAML(strings.NewReader(text)), clouds.WithSecureYAML(strings.NewReader("{}")))
	case os.Getenv("OS_CLOUD") == "":
		return gophercloud.AuthOptions{}, gophercloud.EndpointOpts{}, nil, errors.New("neither `cloud:` at the site, nor OS_CLOUD, nor OS_AUTH_URL is set")
	}
	auth, endpoints, tls, err := clouds.Parse(options...)
	if err != nil {
		return auth, endpoints, nil, err
	}
	if auth.IdentityEndpoint == "" {
		return auth, endpoints, nil, errors.New("no `auth_url` is set")
	}
	if auth.ApplicationCredentialID != "" || auth.ApplicationCredentialName != "" { // it is of one project
		auth.Scope, auth.TenantID, auth.TenantName = nil, "", ""
	}
	auth.AllowReauth = auth.TokenID == ""
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if tls != nil {
		transport.TLSClientConfig = tls
	}
	return auth, endpoints, bounded{transport}, nil
}

// login logs in to a cloud.
func login(ctx context.Context, name, region string) (*session, error) {
	auth, endpoints, transport, err := parse(name, region)
	if err != nil {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "read the credentials for OpenStack", Object: name, Err: err,
			Remedy: "Set `cloud:` at the site to a cloud of ~/.config/openstack/clouds.yaml, or source the project's openrc file.",
		}
	}
	provider, err := openstacksdk.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "use", Object: auth.IdentityEndpoint, Err: err, Remedy: "Check `auth_url` of the credentials."}
	}
	provider.HTTPClient = http.Client{Transport: transport, CheckRedirect: sameHost} // each call has a bound of its own
	bounded, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	if err := openstacksdk.Authenticate(bounded, provider, auth); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, explain("log in at "+auth.IdentityEndpoint, err)
	}
	s := &session{provider: provider, endpoints: endpoints}
	if token, is := provider.GetAuthResult().(interface {
		ExtractInto(any) error
	}); is {
		var t struct {
			Project struct{ ID string }
			Methods []string
		}
		if err := token.ExtractInto(&t); err == nil {
			s.project, s.delegated = t.Project.ID, slices.Contains(t.Methods, "application_credential")
		}
	}
	return s, nil
}

// sameHost refuses to follow a redirect to another host, which would get the token.
func sameHost(r *http.Request, via []*http.Request) error {
	if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme || len(via) > 5 {
		return fmt.Errorf("it redirects to %s", r.URL.Host)
	}
	return nil
}

// contentLength is the header by which an upload has its length.
const contentLength = "Content-Length"

// bounded bounds the answers of a cloud.
type bounded struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if size, err := strconv.ParseInt(r.Header.Get(contentLength), 10, 64); err == nil && r.Body != nil { // not every server takes a body of unknown length
		r = r.Clone(r.Context())
		r.ContentLength = size
	}
	answer, err := b.inner.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, mostAnswer), answer.Body}
	}
	return answer, err
}
