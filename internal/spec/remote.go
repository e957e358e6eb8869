package spec

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Remote is a file that is neither on this machine nor on a site: behind https, or an object
// of S3.
type Remote struct {
	// URL of a file behind https; "": it is in a bucket.
	URL string
	// Bucket and Key of an object. Endpoint, Region and Profile are as in Store.
	Bucket, Key               string
	Endpoint, Region, Profile string
}

// IsRemote reports whether the place of an input or output has a scheme, such as https://, so
// that it is no path of this machine.
func IsRemote(place string) bool { return matches(`^[A-Za-z][A-Za-z0-9+.-]*://`, place) }

// credentials are parameters of a URL that give access, and would be recorded with a run.
var credentials = []string{
	"x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "signature", "sig", "token", "access_token", "auth", "api_key", "apikey", "key", "password",
}

// ParseRemote takes the text of a remote input apart. hint is what to write instead.
func ParseRemote(text string) (r Remote, hint string, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "https":
		return parseWeb(text)
	case "s3":
		hint = "such as s3://bucket/data/file"
		b, err := parseBucket(rest)
		name, _, _ := strings.Cut(rest, "?")
		switch {
		case err != nil:
			return r, hint, err
		case b.Prefix == "" || strings.HasSuffix(name, "/"):
			return r, hint, errors.New("it names no object")
		}
		r = Remote{Bucket: b.Bucket, Key: b.Prefix, Endpoint: b.Endpoint, Region: b.Region, Profile: b.Profile}
		return r, "write the whole key of an object", r.checkName()
	case "http":
		return r, "https://" + rest, errors.New("anybody on the way could read and change it")
	case "file":
		return r, "/" + strings.TrimLeft(rest, "/"), errors.New("a file of this machine is named by its path")
	}
	return r, "https://… or s3://…", fmt.Errorf("bee cannot fetch %s://", scheme)
}

func parseWeb(text string) (r Remote, hint string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return r, "such as https://example.org/data.nc", errors.New("it is no URL")
	}
	secret := func(key string) bool { return slices.Contains(credentials, strings.ToLower(key)) }
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Hostname() == "" || strings.ContainsAny(text, " \t\r\n\x00"):
		return r, "such as https://example.org/data.nc", errors.New("it is no URL")
	case err != nil:
		return r, "such as ?version=2", errors.New("what follows the question mark is no query")
	case u.User != nil:
		return r, "leave name and password out", errors.New("it holds credentials, which would be recorded with the run")
	}
	for key := range query {
		if secret(key) {
			return r, "s3://BUCKET/KEY takes credentials from the environment", fmt.Errorf("the parameter %q may be a credential, which would be recorded with the run", key)
		}
	}
	u.Fragment = ""
	r = Remote{URL: u.String()}
	return r, "the path of a file", r.checkName()
}

// ParseRemoteDir takes the text of a prefix apart, under whose names outputs become objects:
// s3://BUCKET or s3://BUCKET/PREFIX. hint is what to write instead.
func ParseRemoteDir(text string) (r Remote, hint string, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "s3":
		b, err := parseBucket(rest)
		return Remote{Bucket: b.Bucket, Key: b.Prefix, Endpoint: b.Endpoint, Region: b.Region, Profile: b.Profile}, "such as s3://bucket/results", err
	case "file":
		return r, "/" + strings.TrimLeft(rest, "/"), errors.New("a directory of this machine is named by its path")
	}
	return r, "a directory, or s3://BUCKET/PREFIX", fmt.Errorf("bee cannot send outputs to %s://", scheme)
}

// Name is what the file is called where a directory gets it.
func (r Remote) Name() string {
	if r.URL == "" {
		return path.Base(r.Key)
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}

// checkName refuses what cannot be the name of a file.
func (r Remote) checkName() error {
	name := r.Name()
	if name == "" || name == "." || name == ".." || name == "/" || len(name) > longestRemote || strings.ContainsAny(name, "\x00\n\r/") {
		return fmt.Errorf("%.60q is no name of a file", name)
	}
	return nil
}

// longestRemote is the longest name of a remote file, in bytes: others are made of it.
const longestRemote = 200

// remoteInput finds remote inputs that cannot be fetched, or whose content nobody could
// know.
func (jc *jobCheck) remoteInput(at string, in Input) {
	if !jc.report.allRead(at) {
		return
	}
	if !IsRemote(in.From) {
		if in.SHA256 != "" {
			jc.report.atKey(at+".sha256", "leave it out", "%s.sha256: only https:// and s3:// have one; a file of this machine is sent as it is", at)
		}
		return
	}
	r, hint, err := ParseRemote(in.From)
	switch {
	case err != nil:
		jc.report.at(at+".from", hint, "%s.from: %v", at, err)
	case in.SHA256 != "" && !fits("inputs[].sha256", in.SHA256):
		jc.report.at(at+".sha256", "64 hexadecimal digits, as `sha256sum FILE` prints them", "%s.sha256: %.80q is no digest", at, in.SHA256)
	case in.SHA256 == "" && r.URL != "":
		jc.report.at(at, "add what `sha256sum FILE` prints", "%s: a file behind https needs `sha256:`, so that every attempt has the same one", at)
	}
}
