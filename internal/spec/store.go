package spec

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// StoreHome is the word for the state directory of the machine that submits,
// where checkpoints are kept that have no other store.
const StoreHome = "home"

// Store is where checkpoints are kept, taken apart: a directory of this machine
// (Dir), one of a machine behind ssh (Host, Dir), or a bucket.
type Store struct {
	Host string
	Dir  string
	// Bucket of S3, with a Prefix of all names in it. Endpoint, Region and Profile
	// are "" where the environment and the AWS tools' own files say them.
	Bucket, Prefix            string
	Endpoint, Region, Profile string
}

// ParseStore takes the text of a `store:` apart.
func ParseStore(text string) (Store, error) {
	if rest, is := strings.CutPrefix(text, "s3://"); is {
		return parseBucket(rest)
	}
	if scheme, _, is := strings.Cut(text, "://"); is {
		return Store{}, fmt.Errorf("%q is no kind of store: a directory, HOST:DIRECTORY, or s3://BUCKET/PREFIX is wanted", scheme)
	}
	if host, dir, is := strings.Cut(text, ":"); is && !strings.Contains(host, "/") {
		dir = strings.TrimPrefix(dir, "~/")
		switch {
		case host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(host, " \t"):
			return Store{}, fmt.Errorf("%q is no host name", host)
		case strings.Trim(dir, "/") == "":
			return Store{}, fmt.Errorf("a directory on %s is wanted after the colon", host)
		}
		return Store{Host: host, Dir: dir}, nil
	}
	if strings.Trim(text, "/") == "" {
		return Store{}, fmt.Errorf("%q is no directory for it", text)
	}
	return Store{Dir: text}, nil
}

func parseBucket(rest string) (Store, error) {
	name, query, _ := strings.Cut(rest, "?")
	bucket, prefix, _ := strings.Cut(name, "/")
	if !matches(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`, bucket) {
		return Store{}, fmt.Errorf("%q is no name of a bucket", bucket)
	}
	s := Store{Bucket: bucket, Prefix: strings.Trim(prefix, "/")}
	values, err := url.ParseQuery(query)
	if err != nil {
		return Store{}, fmt.Errorf("what follows the question mark is not KEY=VALUE&…: %w", err)
	}
	for key, value := range values {
		switch key {
		case "endpoint":
			u, err := url.Parse(value[0])
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
				return Store{}, fmt.Errorf("endpoint %q is no URL such as https://s3.example.org", value[0])
			}
			s.Endpoint = value[0]
		case "region":
			s.Region = value[0]
		case "profile":
			s.Profile = value[0]
		default:
			return Store{}, fmt.Errorf("%q is none of endpoint, region and profile", key)
		}
	}
	return s, nil
}

// checkStore finds what cannot be in a `store:`.
func (r *report) checkStore(text string) {
	if text == "" || text == StoreHome {
		return
	}
	if _, err := ParseStore(text); err != nil {
		r.at("store", "such as /project/ann/bee, ann@archive:bee or s3://bucket/bee", "store: %v", err)
	}
}

// localStore makes the name of a directory absolute.
func localStore(text string, absolute func(string) string) string {
	if s, err := ParseStore(text); text == "" || text == StoreHome || err != nil || s.Host != "" || s.Bucket != "" {
		return text
	}
	return filepath.Clean(absolute(text))
}

// AbsoluteStore checks the text of a store that was given on a command line, and
// makes the name of a directory absolute.
func AbsoluteStore(text string) (string, error) {
	if _, err := ParseStore(text); err != nil {
		return "", err
	}
	dir, err := os.Getwd()
	return localStore(text, (&Job{Dir: dir}).local), err
}
