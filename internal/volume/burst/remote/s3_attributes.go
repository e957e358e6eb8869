package remote

import (
	"errors"
	"path"
	"strings"
	"sync"
	"time"
)

// fresh is how long attributes count. A directory of many files is listed by one request, and each file
// costs another one: it is longer than the time of a Tree.
const fresh = 5 * time.Second

// attributes are what was lately seen of files and directories, so that a list takes few requests.
type attributes struct {
	bucket *bucket
	volume string

	mu   sync.Mutex
	seen map[string]object // files as they were listed, by key
	dirs map[string]object // markers of directories
}

// mark gives the directory of a name a marker, so that it stays when the name goes.
func (a *attributes) mark(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	key := a.bucket.below(dir)
	a.mu.Lock()
	o, known := a.dirs[key]
	a.mu.Unlock()
	if known && o.meta != nil {
		return nil
	}
	_, err := a.bucket.put(dir, key, metadata(Dir, 0o755, 0, a.volume), nil, replaces(Version{}))
	if err != nil && !errors.Is(err, errCondition) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	remember(a.dirs, key, object{meta: map[string]string{}}) // it is there, whatever its attributes are
	return nil
}

// dirEntry describes a directory, by its marker if there is one.
func (a *attributes) dirEntry(name string) (Entry, error) {
	key := a.bucket.below(name)
	a.mu.Lock()
	o, known := a.dirs[key]
	a.mu.Unlock()
	if known && time.Since(o.at) < fresh {
		return o.entry, nil
	}
	o = object{entry: describeObject(name, true, 0, "", time.Unix(0, 0), nil)}
	if key != "" {
		there, err := a.bucket.head(name, key)
		if err == nil {
			o = there
		} else if !errors.Is(err, errNoObject) {
			return Entry{}, err
		}
	}
	o.at = time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	remember(a.dirs, key, o)
	return o.entry, nil
}

// mostRemembered bounds what is remembered of objects.
const mostRemembered = 1 << 17

func remember(m map[string]object, key string, o object) {
	if len(m) >= mostRemembered {
		clear(m)
	}
	m[key] = o
}

// forgetDir drops what is remembered of a directory.
func (a *attributes) forgetDir(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.dirs, a.bucket.below(name))
}

// forgetDirs drops what is remembered of all directories.
func (a *attributes) forgetDirs() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.dirs)
}

// lately gives what was seen of a file that was listed. Callers hold the lock.
func (a *attributes) lately(key string, f listed) (Entry, bool) {
	o, known := a.seen[key]
	if !known || o.entry.Version != (Version{Tag: f.tag, Size: f.size}) {
		return Entry{}, false
	}
	if o.at.IsZero() { // it was published from here, and no list has shown it yet
		o.at = f.at
		a.seen[key] = o
	}
	return o.entry, o.at.Equal(f.at)
}

// published notes how a file looks that was published from here.
func (a *attributes) published(name string, v Version, meta map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if meta[metaMtime] == "" { // it is the bucket's
		return
	}
	o := object{entry: describeObject(name, false, v.Size, v.Tag, time.Time{}, meta), meta: meta}
	remember(a.seen, a.bucket.key(name), o)
}

// remembered describes what was listed in a directory, without a request.
func (a *attributes) remembered(dir string, f listed) Entry {
	name, isDir := strings.CutSuffix(f.name, "/")
	full := path.Join(dir, name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if isDir {
		if o, known := a.dirs[a.bucket.below(full)]; known && time.Since(o.at) < fresh {
			return o.entry
		}
		return Entry{Name: name, Version: dirVersion}
	}
	if e, known := a.lately(a.bucket.key(full), f); known {
		return e
	}
	return Entry{Name: name, Version: Version{Tag: f.tag, Size: f.size}}
}

// file describes a file that was listed.
func (a *attributes) file(name string, f listed) (Entry, error) {
	key := a.bucket.key(name)
	a.mu.Lock()
	e, known := a.lately(key, f)
	a.mu.Unlock()
	if known {
		return e, nil
	}
	o, err := a.bucket.head(name, key)
	if err != nil {
		return Entry{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	remember(a.seen, key, o)
	return o.entry, nil
}
