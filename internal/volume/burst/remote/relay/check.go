package relay

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

const (
	mostKey  = 1024
	mostBody = 5 << 30 // of a part
)

// errOutside is about an object that is not of the place.
var errOutside = errors.New("it is outside of the place")

// bodySum is how the sum of content is signed that is sent as it is.
var bodySum = regexp.MustCompile(`^([0-9a-f]{64}|UNSIGNED-PAYLOAD)$`)

// check returns what is passed on of a request, or why nothing is.
func check(p remote.Place, q *http.Request) (request, error) {
	var w request
	in, is := strings.CutPrefix(q.URL.Path, "/"+p.Bucket)
	if !is || in != "" && in[0] != '/' {
		return w, fmt.Errorf("%q: %w", core.Printable(q.URL.Path, 200), errOutside)
	}
	w.key = strings.TrimPrefix(in, "/")
	if q.ContentLength < 0 || q.ContentLength > mostBody || len(q.TransferEncoding) > 0 {
		return w, fmt.Errorf("its content has %d bytes", q.ContentLength)
	}
	if q.ContentLength > 0 && q.Method != http.MethodPut && q.Method != http.MethodPost {
		return w, fmt.Errorf("a %s has content", core.Printable(q.Method, 20))
	}
	if w.sum = q.Header.Get("X-Amz-Content-Sha256"); !bodySum.MatchString(w.sum) {
		return w, fmt.Errorf("the sum of its content is %q", core.Printable(w.sum, 100))
	}
	var err error
	if w.query, err = url.ParseQuery(q.URL.RawQuery); err != nil {
		return w, err
	}
	if w.key == "" {
		err = w.checkList(p, q.Method)
	} else if err = checkKey(p, w.key); err == nil {
		err = w.checkObject(q.Method)
	}
	if err == nil {
		w.header, err = headers(p, q.Header)
	}
	return w, err
}

// below is the beginning of the keys of a place.
func below(p remote.Place) string {
	if p.Prefix == "" {
		return ""
	}
	return p.Prefix + "/"
}

// checkKey refuses a key outside of the place, and one that a server might take for a path out of it.
func checkKey(p remote.Place, key string) error {
	in, is := strings.CutPrefix(key, below(p))
	if !is || len(key) > mostKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c == 0x7f }) || !plain(in) {
		return fmt.Errorf("%q: %w", core.Printable(key, 200), errOutside)
	}
	return nil
}

// plain reports whether no server takes a key, or the beginning of one, for another path. "" is the marker of the place.
func plain(in string) bool {
	if in == "" {
		return true
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(in, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// only reports whether a request has no parameters but some.
func (w request) only(names ...string) bool {
	for name, values := range w.query {
		if len(values) != 1 || name != "x-id" && !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

func (w request) refused(method string) error {
	return fmt.Errorf("%s with the parameters %q", core.Printable(method, 20), core.Printable(w.query.Encode(), 200))
}

// checkList refuses a request about the bucket that lists nothing of the place alone.
func (w request) checkList(p remote.Place, method string) error {
	objects := w.query.Get("list-type") == "2" && w.only("list-type", "prefix", "delimiter", "max-keys", "continuation-token", "encoding-type")
	uploads := w.query.Has("uploads") && w.only("uploads", "prefix")
	if method != http.MethodGet || !objects && !uploads {
		return w.refused(method)
	}
	return checkKey(p, w.query.Get("prefix"))
}

// checkObject refuses a request about an object that a burst buffer does not make.
func (w request) checkObject(method string) error {
	part := w.query.Has("uploadId")
	is := false
	switch method {
	case http.MethodGet, http.MethodHead:
		is = w.only()
	case http.MethodPut:
		is = w.only() || part && w.query.Has("partNumber") && w.only("uploadId", "partNumber")
	case http.MethodPost:
		is = w.query.Has("uploads") != part && w.only("uploads", "uploadId")
	case http.MethodDelete:
		is = w.only("uploadId")
	}
	if !is {
		return w.refused(method)
	}
	return nil
}

const (
	copySource = "X-Amz-Copy-Source"
	ownMeta    = "X-Amz-Meta-"
)

// passed are headers that are passed on.
var passed = []string{
	"Content-Type", "Content-Md5", "If-Match", "If-None-Match", "Range", "X-Amz-Content-Sha256", copySource, "X-Amz-Copy-Source-If-Match", "X-Amz-Copy-Source-Range",
}

// dropped are headers of S3 that the relay sets itself.
var dropped = []string{"X-Amz-Date", "X-Amz-Security-Token", "X-Amz-User-Agent"}

// headers returns those that are passed on. One of S3 that is not known is refused, as it may give others access.
func headers(p remote.Place, all http.Header) (http.Header, error) {
	pass := http.Header{}
	for name, values := range all {
		switch {
		case slices.Contains(passed, name), strings.HasPrefix(name, ownMeta):
			if len(values) != 1 {
				return nil, fmt.Errorf("it has %d headers %s", len(values), core.Printable(name, 100))
			}
			pass[name] = values
		case strings.HasPrefix(name, "X-Amz-") && !slices.Contains(dropped, name):
			return nil, fmt.Errorf("it has the header %s", core.Printable(name, 100))
		}
	}
	from := pass.Get(copySource)
	if from == "" {
		return pass, nil
	}
	text, err := url.PathUnescape(strings.TrimPrefix(from, "/"))
	if err != nil || strings.Contains(from, "?") {
		return nil, fmt.Errorf("it copies %q", core.Printable(from, 200))
	}
	key, is := strings.CutPrefix(text, p.Bucket+"/")
	if !is || checkKey(p, key) != nil {
		return nil, fmt.Errorf("it copies %q: %w", core.Printable(from, 200), errOutside)
	}
	pass.Set(copySource, p.Bucket+"/"+remote.Escape(key))
	return pass, nil
}
