package ec2server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// snapshot is a snapshot that is written block by block.
type snapshot struct {
	id, state, token, request string
	size                      int // in GiB
	blocks                    map[int][]byte
	tags                      map[string]string
	made                      time.Time
	looks                     int // until it is complete
	unknown                   int // calls for blocks that do not know it yet
}

// States of snapshots.
const (
	completed = "completed"
	available = "available"
)

// BlockSize is that of all snapshots.
const BlockSize = 512 << 10

// blocksPath is how the paths of the service begin that writes blocks.
const blocksPath = "/snapshots"

// Actions of that service.
const (
	startSnapshot    = "StartSnapshot"
	putBlock         = "PutSnapshotBlock"
	completeSnapshot = "CompleteSnapshot"
)

// BlockActions are those of the EBS direct APIs that the server knows.
func BlockActions() []string { return []string{startSnapshot, putBlock, completeSnapshot} }

// blocks answers the calls of the EBS direct APIs.
type blocks struct{ s *Server }

// refused is an error in the form of that service.
func refused(status int, code, format string, args ...any) error {
	return &apiError{code, fmt.Sprintf(format, args...), status}
}

func (c blocks) serve(w http.ResponseWriter, r *http.Request, body []byte, err error) {
	var reply any
	status := http.StatusOK
	if err == nil {
		status, reply, err = c.do(r, body)
	}
	unanswered(r, err)
	var e *apiError
	switch {
	case errors.As(err, &e):
		w.Header().Set("X-Amzn-Errortype", e.Code+":http://internal.amazon.com/")
		status, reply = e.status, map[string]any{"Message": e.Message}
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if reply != nil {
		json.NewEncoder(w).Encode(reply) //nolint:errcheck // the client has gone
	}
}

func (c blocks) do(r *http.Request, body []byte) (int, any, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.Split(strings.TrimPrefix(r.URL.Path, blocksPath), "/")
	var action string
	var f func() (int, any, error)
	switch {
	case r.Method == http.MethodPost && len(words) == 1:
		action, f = startSnapshot, func() (int, any, error) { return c.start(body) }
	case r.Method == http.MethodPost && len(words) == 3 && words[1] == "completion":
		action, f = completeSnapshot, func() (int, any, error) { return c.complete(words[2], r.Header) }
	case r.Method == http.MethodPut && len(words) == 4 && words[2] == "blocks":
		action, f = putBlock, func() (int, any, error) { return c.put(words[1], words[3], r.Header, body) }
	default:
		return 0, nil, refused(http.StatusNotFound, "UnknownOperationException", "%s %s", r.Method, r.URL.Path)
	}
	s.calls[action]++
	if s.denied[action] {
		return 0, nil, refused(http.StatusForbidden, "AccessDeniedException", "You are not authorized to perform: ebs:%s", action)
	}
	if queue := s.faults[action]; len(queue) > 0 {
		s.faults[action] = queue[1:]
		if queue[0].done {
			if _, _, err := f(); err != nil {
				return 0, nil, err
			}
		}
		return 0, nil, &apiError{queue[0].code, queue[0].message, queue[0].status}
	}
	return f()
}

func (c blocks) start(body []byte) (int, any, error) {
	var q struct {
		VolumeSize  int
		ClientToken string
		Tags        []struct{ Key, Value string }
	}
	if err := json.Unmarshal(body, &q); err != nil || q.VolumeSize < 1 {
		return 0, nil, refused(http.StatusBadRequest, "ValidationException", "VolumeSize %d, %v", q.VolumeSize, err)
	}
	at := slices.IndexFunc(c.s.snapshots, func(o *snapshot) bool { return o.token == q.ClientToken && q.ClientToken != "" })
	switch {
	case at < 0:
		made := &snapshot{id: c.s.id("snap"), state: pending, token: q.ClientToken, request: string(body), size: q.VolumeSize, blocks: map[int][]byte{}, tags: map[string]string{}, made: time.Now(), unknown: c.s.unknown}
		for _, t := range q.Tags {
			made.tags[t.Key] = t.Value
		}
		at = len(c.s.snapshots)
		c.s.snapshots = append(c.s.snapshots, made)
	case c.s.snapshots[at].request != string(body):
		return 0, nil, refused(http.StatusConflict, "ConflictException", "The request uses the same client token as a previous, but non-identical request.")
	}
	o := c.s.snapshots[at]
	return http.StatusCreated, map[string]any{"SnapshotId": o.id, "BlockSize": BlockSize, "VolumeSize": o.size, "Status": o.state, "OwnerId": account}, nil
}

// pendingOne returns a snapshot that can be written.
func (c blocks) pendingOne(id string) (*snapshot, error) {
	at := slices.IndexFunc(c.s.snapshots, func(o *snapshot) bool { return o.id == id })
	if at >= 0 && c.s.snapshots[at].unknown > 0 { // it was just made
		c.s.snapshots[at].unknown--
		at = -1
	}
	switch {
	case at < 0:
		return nil, refused(http.StatusNotFound, "ResourceNotFoundException", "The snapshot '%s' does not exist.", id)
	case c.s.snapshots[at].state != pending || c.s.snapshots[at].looks > 0:
		return nil, refused(http.StatusBadRequest, "ValidationException", "The snapshot '%s' is not being written.", id)
	}
	return c.s.snapshots[at], nil
}

func (c blocks) put(id, index string, header http.Header, body []byte) (int, any, error) {
	o, err := c.pendingOne(id)
	if err != nil {
		return 0, nil, err
	}
	n, err := strconv.Atoi(index)
	sum := sha256.Sum256(body)
	switch {
	case err != nil || n < 0 || (n+1)*BlockSize > o.size<<30:
		return 0, nil, refused(http.StatusBadRequest, "ValidationException", "The block index %q is invalid.", index)
	case len(body) != BlockSize || header.Get("X-Amz-Data-Length") != strconv.Itoa(len(body)):
		return 0, nil, refused(http.StatusBadRequest, "ValidationException", "The length %d of the block is invalid.", len(body))
	case header.Get("X-Amz-Checksum-Algorithm") != "SHA256" || header.Get("X-Amz-Checksum") != base64.StdEncoding.EncodeToString(sum[:]):
		return 0, nil, refused(http.StatusBadRequest, "ValidationException", "The checksum of the block does not match.")
	}
	o.blocks[n] = slices.Clone(body)
	if c.s.damaged { // as memory of a server may be
		c.s.damaged = false
		o.blocks[n][0]++
	}
	return http.StatusCreated, nil, nil
}

func (c blocks) complete(id string, header http.Header) (int, any, error) {
	o, err := c.pendingOne(id)
	if err != nil {
		return 0, nil, err
	}
	all := sha256.New()
	for _, n := range slices.Sorted(maps.Keys(o.blocks)) {
		sum := sha256.Sum256(o.blocks[n])
		all.Write(sum[:])
	}
	switch {
	case header.Get("X-Amz-Changedblockscount") != strconv.Itoa(len(o.blocks)):
		return 0, nil, refused(http.StatusBadRequest, "ValidationException", "ChangedBlocksCount is %s, and %d blocks were written.", header.Get("X-Amz-Changedblockscount"), len(o.blocks))
	case header.Get("X-Amz-Checksum-Algorithm") != "SHA256" || header.Get("X-Amz-Checksum-Aggregation-Method") != "LINEAR" || header.Get("X-Amz-Checksum") != base64.StdEncoding.EncodeToString(all.Sum(nil)):
		return 0, nil, refused(http.StatusBadRequest, "ValidationException", "The checksum of the snapshot does not match.")
	}
	o.looks = 2
	return http.StatusAccepted, map[string]any{"Status": o.state}, nil
}

// snapshots answers EC2's calls for snapshots and the images that are made of them.
type snapshots struct{ s *Server }

type snapshotItem struct {
	ID    string    `xml:"snapshotId"`
	State string    `xml:"status"`
	Size  int       `xml:"volumeSize"`
	Owner string    `xml:"ownerId"`
	Made  string    `xml:"startTime"`
	Tags  []tagItem `xml:"tagSet>item"`
}

// Kept is what the account keeps: images and snapshots.
type Kept struct{ s *Server }

// Kept returns it.
func (s *Server) Kept() Kept { return Kept{s} }

// Foreign has the account, and another one, have snapshots and images that are none of bee's installation: those of another
// installation, and one of another account that has the same tags.
func (k Kept) Foreign(tags map[string]string) {
	s := k.s
	s.locked(func() {
		for n, owner := range []string{account, "666666666666"} {
			disk := &snapshot{id: s.id("snap"), state: completed, size: 1, tags: tags, made: time.Now()}
			if owner == account {
				s.snapshots = append(s.snapshots, disk)
			}
			s.registered = append(s.registered, &imageItem{
				ID: s.id("ami"), Name: "foreign-" + strconv.Itoa(n), Owner: owner, Arch: "x86_64", Disk: "/dev/xvda", State: available, Made: "2027-01-01T00:00:00.000Z", ENA: true, Boot: "uefi",
				Disks: []diskItem{{"/dev/xvda", 1, disk.id}}, Tags: tagItems(tags),
			})
		}
	})
}

// Unknown has new snapshots not known to so many calls for blocks.
func (k Kept) Unknown(calls int) { k.s.locked(func() { k.s.unknown = calls }) }

// Break has the next snapshot that is complete end in an error.
func (k Kept) Break() { k.s.locked(func() { k.s.broken = true }) }

// Damage has the next block stored otherwise than it was sent.
func (k Kept) Damage() { k.s.locked(func() { k.s.damaged = true }) }

// Disabled is the state of an image that its owner has disabled.
const Disabled = "disabled"

// Become has the images of a name, by its beginning, be in a state.
func (k Kept) Become(name, state string) {
	k.s.locked(func() {
		for _, i := range k.s.registered {
			if strings.HasPrefix(i.Name, name) {
				i.State = state
			}
		}
	})
}

// Images are what the account has registered, and its snapshots, a line each.
func (k Kept) Images() (all []string) {
	s := k.s
	s.locked(func() {
		for _, i := range s.registered {
			all = append(all, i.ID+" "+i.Name+" "+i.State)
		}
		for _, o := range s.snapshots {
			all = append(all, o.id+" "+o.state)
		}
	})
	slices.Sort(all)
	return all
}

// Blocks is how many blocks a snapshot of the image of a name has.
func (k Kept) Blocks(name string) (n int) {
	k.s.locked(func() {
		if _, o := k.diskOf(name); o != nil {
			n = len(o.blocks)
		}
	})
	return n
}

// Disk returns the first bytes of the disk that machines of an image have, by the beginning of its name, and what it boots by.
func (k Kept) Disk(name string, size int) (data []byte, boot string) {
	k.s.locked(func() {
		i, o := k.diskOf(name)
		if o == nil {
			return
		}
		data, boot = make([]byte, size), i.Boot
		for n, block := range o.blocks {
			if at := n * BlockSize; at < size {
				copy(data[at:], block)
			}
		}
	})
	return data, boot
}

func (k Kept) diskOf(name string) (*imageItem, *snapshot) {
	for _, i := range k.s.registered {
		for _, o := range k.s.snapshots {
			if strings.HasPrefix(i.Name, name) && i.Disks[0].Snapshot == o.id {
				return i, o
			}
		}
	}
	return nil, nil
}

// isLate reports whether an image is not listed yet.
func (c snapshots) isLate(id string) bool {
	made, known := c.s.imagesMade[id]
	return known && time.Since(made) < c.s.late
}

func (c snapshots) describe(params url.Values) (any, error) {
	var found []snapshotItem
	for _, o := range c.s.snapshots {
		if o.looks > 0 {
			if o.looks--; o.looks == 0 {
				o.state = completed
				if c.s.broken {
					o.state, c.s.broken = "error", false
				}
			}
		}
		is, err := passes(params, map[string]string{"snapshot-id": o.id, "status": o.state}, o.tags)
		if err != nil {
			return nil, err
		}
		if is && owned(params, account) {
			found = append(found, snapshotItem{o.id, o.state, o.size, account, o.made.UTC().Format("2006-01-02T15:04:05.000Z"), tagItems(o.tags)})
		}
	}
	return struct {
		bare
		Snapshots []snapshotItem `xml:"snapshotSet>item"`
	}{Snapshots: found}, nil
}

func (c snapshots) delete(params url.Values) (any, error) {
	id := params.Get("SnapshotId")
	at := slices.IndexFunc(c.s.snapshots, func(o *snapshot) bool { return o.id == id })
	if at < 0 {
		return nil, fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
	}
	for _, i := range c.s.registered {
		if slices.ContainsFunc(i.Disks, func(d diskItem) bool { return d.Snapshot == id }) {
			return nil, fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s", id, i.ID)
		}
	}
	c.s.snapshots = slices.Delete(c.s.snapshots, at, at+1)
	return done(), nil
}

func (c snapshots) register(params url.Values) (any, error) {
	const disk = "BlockDeviceMapping.1."
	at := slices.IndexFunc(c.s.snapshots, func(o *snapshot) bool { return o.id == params.Get(disk+"Ebs.SnapshotId") })
	named := slices.IndexFunc(c.s.registered, func(i *imageItem) bool { return i.Name == params.Get("Name") && i.Owner == account })
	switch {
	case len(params.Get("Name")) < 3 || len(params.Get("Name")) > 128:
		return nil, fail("InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long.")
	case named >= 0:
		return nil, fail("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", params.Get("Name"), c.s.registered[named].ID)
	case at < 0:
		return nil, fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", params.Get(disk+"Ebs.SnapshotId"))
	case c.s.snapshots[at].state != completed:
		return nil, fail("InvalidParameterValue", "The snapshot is not complete.")
	case !slices.Contains([]string{"x86_64", "arm64"}, params.Get("Architecture")) || params.Get("VirtualizationType") != "hvm" || params.Get(disk+"DeviceName") != params.Get("RootDeviceName"):
		return nil, fail("InvalidParameterValue", "this server registers images of Nitro machines alone")
	}
	o := c.s.snapshots[at]
	size, err := strconv.Atoi(params.Get(disk + "Ebs.VolumeSize"))
	if err != nil || size < o.size {
		return nil, fail("InvalidBlockDeviceMapping", "The volume size %q is smaller than the snapshot.", params.Get(disk+"Ebs.VolumeSize"))
	}
	made := &imageItem{
		ID: c.s.id("ami"), Name: params.Get("Name"), Owner: account, Arch: params.Get("Architecture"), Disk: params.Get("RootDeviceName"), State: available,
		Made: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), Boot: params.Get("BootMode"), ENA: params.Get("EnaSupport") == "true",
		Disks: []diskItem{{params.Get("RootDeviceName"), size, o.id}}, Tags: tagItems(tagsFor(params, "image")),
	}
	c.s.registered = append(c.s.registered, made)
	c.s.imagesMade[made.ID] = time.Now()
	return struct {
		bare
		ID string `xml:"imageId"`
	}{ID: made.ID}, nil
}

func (c snapshots) deregister(params url.Values) (any, error) {
	id := params.Get("ImageId")
	at := slices.IndexFunc(c.s.registered, func(i *imageItem) bool { return i.ID == id && i.Owner == account })
	if at < 0 {
		return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	c.s.registered = slices.Delete(c.s.registered, at, at+1)
	return done(), nil
}

// createTags sets tags of the account's images and snapshots.
func (c snapshots) createTags(params url.Values) (any, error) {
	s := c.s
	for _, id := range list(params, "ResourceId") {
		at := slices.IndexFunc(s.registered, func(i *imageItem) bool { return i.ID == id && i.Owner == account })
		disk := slices.IndexFunc(s.snapshots, func(o *snapshot) bool { return o.id == id })
		var tags map[string]string
		switch {
		case at >= 0:
			tags = s.registered[at].tags()
		case disk >= 0:
			tags = s.snapshots[disk].tags
		default:
			return nil, fail("InvalidID", "The ID '%s' is not valid", id)
		}
		for i := 1; params.Has(fmt.Sprintf("Tag.%d.Key", i)); i++ {
			tags[params.Get(fmt.Sprintf("Tag.%d.Key", i))] = params.Get(fmt.Sprintf("Tag.%d.Value", i))
		}
		if at >= 0 {
			s.registered[at].Tags = tagItems(tags)
		}
	}
	return done(), nil
}
