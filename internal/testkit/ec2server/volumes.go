package ec2server

import (
	"net/url"
	"slices"
)

// volume is a disk that was made for a machine.
type volume struct {
	id, disk string
	size     int // in GiB
	of       *instance
	ends     bool // with the machine
	ended    bool // by a call
	tags     map[string]string
}

// gone reports whether a disk is not there any more.
func (v *volume) gone() bool { return v.ended || v.ends && v.of.state == terminated }

// volumes answers the calls for disks.
type volumes struct{ s *Server }

type attachmentItem struct {
	Machine string `xml:"instanceId"`
	Disk    string `xml:"device"`
	State   string `xml:"status"`
	Ends    bool   `xml:"deleteOnTermination"`
}

type volumeItem struct {
	ID       string           `xml:"volumeId"`
	Size     int              `xml:"size"`
	Zone     string           `xml:"availabilityZone"`
	State    string           `xml:"status"`
	Made     string           `xml:"createTime"`
	Kind     string           `xml:"volumeType"`
	Attached []attachmentItem `xml:"attachmentSet>item"`
	Tags     []tagItem        `xml:"tagSet>item"`
}

func (v *volume) item() volumeItem {
	item := volumeItem{ID: v.id, Size: v.size, Zone: v.of.zone, State: "available", Made: v.of.made.UTC().Format("2006-01-02T15:04:05.000Z"), Kind: "gp3", Tags: tagItems(v.tags)}
	if v.of.state != terminated {
		item.State, item.Attached = "in-use", []attachmentItem{{v.of.id, v.disk, "attached", v.ends}}
	}
	return item
}

func (c volumes) describe(params url.Values) (any, error) {
	var found []volumeItem
	for _, v := range c.s.volumes {
		is, err := passes(params, map[string]string{"volume-id": v.id}, v.tags)
		if err != nil {
			return nil, err
		}
		if is && !v.gone() {
			found = append(found, v.item())
		}
	}
	return struct {
		bare
		Volumes []volumeItem `xml:"volumeSet>item"`
	}{Volumes: found}, nil
}

func (c volumes) delete(params url.Values) (any, error) {
	at := slices.IndexFunc(c.s.volumes, func(v *volume) bool { return v.id == params.Get("VolumeId") && !v.gone() })
	if at < 0 {
		return nil, fail("InvalidVolume.NotFound", "The volume '%s' does not exist.", params.Get("VolumeId"))
	}
	if v := c.s.volumes[at]; v.of.state != terminated {
		return nil, fail("VolumeInUse", "Volume %s is currently attached to %s", v.id, v.of.id)
	}
	c.s.volumes[at].ended = true
	return done(), nil
}

// Orphan has the disks of the machines that there are outlive them, as after a change by their user. It returns how many.
func (s *Server) Orphan() (n int) {
	s.locked(func() {
		for _, v := range s.volumes {
			if !v.gone() && v.ends {
				v.ends, n = false, n+1
			}
		}
	})
	return n
}
