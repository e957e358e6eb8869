package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Address is where both EC2 and OpenStack have their metadata service.
const Address = "http://169.254.169.254"

// callTime bounds one call.
const callTime = 10 * time.Second

// service is a metadata service.
type service struct {
	client *http.Client
	base   string
	// token is that of EC2's version 2; "": the service wants none.
	token string
}

const (
	tokenHeader    = "X-aws-ec2-metadata-token"
	lifetimeHeader = "X-aws-ec2-metadata-token-ttl-seconds"
)

// Service asks the metadata service at an address. It is never asked by a proxy, and never followed elsewhere.
func Service(ctx context.Context, base string) (Instance, error) {
	s := &service{base: base, client: &http.Client{
		Timeout: callTime, Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	token, status, err := s.call(ctx, http.MethodPut, "/latest/api/token", 4096)
	if err != nil {
		return Instance{}, err
	}
	if status == http.StatusOK && len(token) > 0 && strings.IndexFunc(string(token), func(r rune) bool { return r <= ' ' || r > '~' }) < 0 {
		s.token = string(token)
		return s.ec2(ctx)
	}
	return s.openstack(ctx)
}

// call makes a call. Its answer has most bytes at most.
func (s *service) call(ctx context.Context, method, path string, most int64) ([]byte, int, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case method == http.MethodPut:
		r.Header.Set(lifetimeHeader, "300")
	case s.token != "":
		r.Header.Set(tokenHeader, s.token)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return raw, answer.StatusCode, err
}

// errAbsent is the error of what the service has not.
var errAbsent = errors.New("the metadata service has no such thing")

// get returns what the service has at a path.
func (s *service) get(ctx context.Context, path string, most int64) ([]byte, error) {
	raw, status, err := s.call(ctx, http.MethodGet, path, most)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %s", errAbsent, path)
	case status != http.StatusOK:
		return nil, fmt.Errorf("the metadata service answers %s with status %d", path, status)
	}
	return raw, nil
}

// script returns the start script at a path; nil: there is none.
func (s *service) script(ctx context.Context, path string) ([]byte, error) {
	raw, err := s.get(ctx, path, mostScript)
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	return raw, err
}

func (s *service) ec2(ctx context.Context) (Instance, error) {
	id, err := s.get(ctx, "/latest/meta-data/instance-id", 256)
	if err != nil {
		return Instance{}, err
	}
	hostname, err := s.get(ctx, "/latest/meta-data/local-hostname", 1024)
	if err != nil && !errors.Is(err, errAbsent) {
		return Instance{}, err
	}
	script, err := s.script(ctx, "/latest/user-data")
	if err != nil {
		return Instance{}, err
	}
	return instance(strings.TrimSpace(string(id)), strings.TrimSpace(string(hostname)), script)
}

func (s *service) openstack(ctx context.Context) (Instance, error) {
	raw, err := s.get(ctx, "/openstack/latest/meta_data.json", mostMetadata)
	if err != nil {
		return Instance{}, err
	}
	o, err := parseOpenStack(raw)
	if err != nil {
		return Instance{}, err
	}
	script, err := s.script(ctx, "/openstack/latest/user_data")
	if err != nil {
		return Instance{}, err
	}
	return o.instance(script)
}
