package aws

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/bee-hpc/bee/internal/core"
)

const (
	version = "2016-11-15" // of EC2's API
	service = "ec2"
	pricing = "pricing" // the service of the price list
	// mostAnswer bounds an answer in bytes.
	mostAnswer = 64 << 20
	// callTime bounds one try of a call.
	callTime = time.Minute
)

// client speaks EC2's query protocol. The SDK finds credentials, region and endpoint, signs and
// knows which errors pass; see ADR 55. The credentials are kept in memory only.
type client struct {
	profile, region string
	retryer         aws.Retryer

	mu       sync.Mutex
	settings *loaded // nil: not read yet, or to be read again
}

// loaded is what the user's settings for AWS say.
type loaded struct {
	config aws.Config
}

func newClient(profile, region string) *client {
	return &client{profile: profile, region: region, retryer: retry.AddWithMaxBackoffDelay(retry.AddWithMaxAttempts(retry.NewStandard(), tries), 10*time.Second)}
}

// tries is how often a call is made that fails for a passing reason.
const tries = 5

// load finds credentials, region and endpoint as AWS's own tools do.
func (c *client) load(ctx context.Context) (*loaded, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settings != nil {
		return c.settings, nil
	}
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})} // errors have it all
	if c.region != "" {
		options = append(options, config.WithRegion(c.region))
	}
	if c.profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.profile))
	}
	found, err := config.LoadDefaultConfig(context.WithoutCancel(ctx), options...)
	if err != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "read the settings for AWS", Err: err, Remedy: "Check `profile:` at the site, AWS_PROFILE, ~/.aws/config and ~/.aws/credentials."}
	}
	if found.Region == "" {
		return nil, &core.Error{Kind: core.Unsupported, Op: "find the region of AWS", Err: errors.New("none is set"), Remedy: "Set `region:` at the site, or AWS_REGION."}
	}
	if found.HTTPClient == nil { // proxies and certificates are those of the user's configuration
		found.HTTPClient = awshttp.NewBuildableClient()
	}
	c.settings = &loaded{found}
	return c.settings, nil
}

// renew has the settings read again where the given ones are still in use: credentials in files may be newer.
func (c *client) renew(old *loaded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settings == old {
		c.settings = nil
	}
}

// endpointOf returns the address of a service's API in a region.
func endpointOf(ctx context.Context, c aws.Config, sdkID, host, region string) string {
	for _, source := range c.ConfigSources {
		if s, is := source.(interface {
			GetServiceBaseEndpoint(ctx context.Context, sdkID string) (string, bool, error)
		}); is {
			if url, found, err := s.GetServiceBaseEndpoint(ctx, sdkID); err == nil && found {
				return url
			}
		}
	}
	if c.BaseEndpoint != nil && *c.BaseEndpoint != "" {
		return *c.BaseEndpoint
	}
	suffix := "amazonaws.com"
	if isChina(region) {
		suffix += ".cn"
	}
	return "https://" + host + "." + region + "." + suffix
}

// isChina reports whether a region is one of the partition in China, which has accounts and prices of its own.
func isChina(region string) bool { return strings.HasPrefix(region, "cn-") }

// request is a call to a service in a region.
type request struct {
	service, region, endpoint, action string
	// method and path are of services whose calls have some; "": POST and "/".
	method, path string
	header       http.Header
	body         string
	// limit bounds one try; 0: callTime.
	limit time.Duration
}

// call makes a call to EC2, and decodes its answer.
func (c *client) call(ctx context.Context, action string, params url.Values, into any) error {
	params.Set("Action", action)
	params.Set("Version", version)
	body := params.Encode()
	return c.send(ctx, func(s *loaded) request {
		return request{
			service: service, region: s.config.Region, endpoint: endpointOf(ctx, s.config, "EC2", "ec2", s.config.Region), action: action,
			header: http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}, body: body,
		}
	}, func(answer []byte) error { return xml.Unmarshal(answer, into) })
}

// send makes a call, and decodes its answer. It is made again where its error passes, with pauses.
func (c *client) send(ctx context.Context, of func(*loaded) request, decode func([]byte) error) error {
	settings, err := c.load(ctx)
	if err != nil {
		return err
	}
	renewed := false
	for try := 1; ; try++ {
		q := of(settings)
		answer, err := settings.try(ctx, q)
		if err == nil {
			if err = decode(answer); err != nil {
				err = &core.Error{Kind: core.Transient, Op: "read the answer of", Object: q.action, Err: err, Remedy: "Does AWS answer at " + q.endpoint + "?"}
			}
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isExpired(codeOf(err)) && !renewed {
			renewed = true
			c.renew(settings)
			if settings, err = c.load(ctx); err != nil {
				return err
			}
			continue
		}
		passes := c.retryer.IsErrorRetryable(err) || codeOf(err) == tooManyAtOnce
		if isCapacity(codeOf(err)) || try >= c.retryer.MaxAttempts() || !passes {
			return explain(q.service, q.action, err)
		}
		pause, perr := c.retryer.RetryDelay(try, err)
		if perr == nil {
			perr = core.Sleep(ctx, pause)
		}
		if perr != nil {
			return perr
		}
	}
}

func (s *loaded) try(ctx context.Context, q request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(q.limit, callTime))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodPost), strings.TrimSuffix(q.endpoint, "/")+cmp.Or(q.path, "/"), strings.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	r.Header = q.header
	if s.config.Credentials == nil {
		return nil, errNoCredentials
	}
	credentials, err := s.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	sum := sha256.Sum256([]byte(q.body))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), q.service, q.region, time.Now()); err != nil {
		return nil, err
	}
	answer, err := s.config.HTTPClient.Do(r)
	if err != nil {
		return nil, sendError{err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, sendError{err}
	}
	if answer.StatusCode/100 == 2 {
		return text, nil
	}
	return nil, failure(answer, text)
}

var errNoCredentials = errors.New("no credentials for AWS were found")

// failure returns the error of an answer.
func failure(answer *http.Response, text []byte) error {
	var e struct {
		Code    string `xml:"Errors>Error>Code"`
		Message string `xml:"Errors>Error>Message"`
	}
	switch kind := answer.Header.Get("X-Amzn-Errortype"); {
	case strings.HasPrefix(answer.Header.Get("Content-Type"), jsonType):
		e.Code, e.Message = jsonError(text)
	case kind != "": // of services whose calls have paths
		code, _, _ := strings.Cut(kind, ":")
		_, e.Message = jsonError(text)
		e.Code = core.Printable(code, 100)
	}
	if e.Code == "" && (xml.NewDecoder(bytes.NewReader(text)).Decode(&e) != nil || e.Code == "") {
		e.Code, e.Message = "HTTP"+fmt.Sprint(answer.StatusCode), core.Printable(string(text[:min(len(text), 200)]), 200)
	}
	return &statusError{smithy.GenericAPIError{Code: e.Code, Message: core.Printable(e.Message, 1000)}, answer.StatusCode}
}

// sendError is an error of a connection. The SDK's retries go by its method.
type sendError struct{ error }

// ConnectionError reports that it is one.
func (sendError) ConnectionError() bool { return true }

// Unwrap returns its cause.
func (e sendError) Unwrap() error { return e.error }

// statusError is an error of EC2. The SDK's retries go by its code and its status.
type statusError struct {
	smithy.GenericAPIError
	status int
}

// HTTPStatusCode returns the status of the answer.
func (e *statusError) HTTPStatusCode() int { return e.status }

// Error implements error.
func (e *statusError) Error() string { return e.Code + ": " + e.Message }
