package message

import (
	"encoding/binary"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestHeader: verbs/protocol.h and verbs/shared.h have the same numbers.
func TestHeader(t *testing.T) {
	var raw []byte
	for _, name := range []string{"protocol.h", "shared.h"} {
		text, err := os.ReadFile("../../../../verbs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, text...)
	}
	for name, want := range map[string]int{
		"PROTOCOL": Protocol, "PACKET": Packet, "BUILD": Build, "SLOTS": Slots, "COUNTERS": Counters, "CREDITS": Credits,
		"CM_PRIVATE": CMPrivate, "DESCRIPTORS": Descriptors, "EXTENTS": Extents, "MEMBERS": Members, "INBOX_SLOTS": InboxSlots, "INBOX_SLOT": InboxSlot,
		"OP_HELLO": int(OpHello), "OP_CREATE": int(OpCreate), "OP_DESTROY": int(OpDestroy), "OP_CREATE_QP": int(OpCreateQP),
		"OP_MODIFY_QP": int(OpModifyQP), "OP_CONNECT": int(OpConnect), "OP_FAIL_QP": int(OpFailQP), "OP_CREATE_REGION": int(OpCreateRegion),
		"OP_REGISTER": int(OpRegister), "OP_RESOLVE": int(OpResolve), "OP_ATTACH": int(OpAttach), "OP_RAISE": int(OpRaise),
		"OP_JOIN": int(OpJoin), "OP_LEAVE": int(OpLeave), "OP_MEMBERS": int(OpMembers),
		"OP_CM_CHANNEL": int(OpCMChannel), "OP_CM_ID": int(OpCMID), "OP_CM_BIND": int(OpCMBind), "OP_CM_LISTEN": int(OpCMListen),
		"OP_CM_RESOLVE": int(OpCMResolve), "OP_CM_ROUTE": int(OpCMRoute), "OP_CM_CONNECT": int(OpCMConnect), "OP_CM_ACCEPT": int(OpCMAccept),
		"OP_CM_REJECT": int(OpCMReject), "OP_CM_DISCONNECT": int(OpCMDisconnect), "OP_CM_MIGRATE": int(OpCMMigrate), "OP_CM_EVENT": int(OpCMEvent), "OP_CM_JOIN": int(OpCMJoin),
		"KIND_PD": int(KindPD), "KIND_CQ": int(KindCQ), "KIND_SRQ": int(KindSRQ), "KIND_CHANNEL": int(KindChannel),
		"KIND_AH": int(KindAH), "KIND_QP": int(KindQP), "KIND_MR": int(KindMR), "KIND_REGION": int(KindRegion),
		"KIND_CM_CHANNEL": int(KindCMChannel), "KIND_CM_ID": int(KindCMID),
		"COUNT_SENDS": CountSends, "COUNT_RECEIVES": CountReceives, "COUNT_WRITES": CountWrites, "COUNT_READS": CountReads, "COUNT_ATOMICS": CountAtomics,
		"COUNT_RING_BYTES": CountRingBytes, "COUNT_DIRECT_BYTES": CountDirectBytes, "COUNT_STAGED_BYTES": CountStagedBytes,
		"COUNT_STAGED": CountStaged, "COUNT_ERRORS": CountErrors, "COUNT_WAKES": CountWakes,
		"ENTRY_SKIP": int(EntrySkip), "ENTRY_SEND": int(EntrySend), "ENTRY_MORE": int(EntryMore), "ENTRY_IMMEDIATE": int(EntryImmediate), "ENTRY_WRITE": int(EntryWrite),
		"ENTRY_READ": int(EntryRead), "ENTRY_ATOMIC_ADD": int(EntryAtomicAdd), "ENTRY_ATOMIC_SWAP": int(EntryAtomicSwap), "ENTRY_REPLY": int(EntryReply), "ENTRY_FLAG_CLAIMED": FlagClaimed,
	} {
		m := regexp.MustCompile(`(?m)^#define BEE_` + name + `\s+(\d+)\b`).FindSubmatch(raw)
		if m == nil {
			t.Errorf("BEE_%s is not in the header", name)
		} else if got, err := strconv.Atoi(string(m[1])); err != nil || got != want {
			t.Errorf("BEE_%s is %s in the header, and %d here", name, m[1], want)
		}
	}
	for _, line := range []string{
		"#define BEE_RING_DATA (1u << 20)", "#define BEE_RING_BYTES (4096 + 4 * BEE_CREDITS + BEE_RING_DATA)", "#define BEE_PAIR_BYTES (2 * BEE_RING_BYTES)",
		"#define BEE_INBOX_BYTES (4096 + BEE_INBOX_SLOTS * BEE_INBOX_SLOT)", "#define BEE_PAGE_BYTES 4096", "#define BEE_TABLE_BYTES (8 * BEE_SLOTS + 4 * BEE_SLOTS)",
	} {
		if !strings.Contains(string(raw), line) {
			t.Errorf("the header has no line %q: look at the sizes here", line)
		}
	}
}

// TestStructs: each struct has the size of that in verbs/protocol.h, as a C compiler laid it
// out.
func TestStructs(t *testing.T) {
	for _, tc := range []struct {
		body any
		size int // with its header
	}{
		{Hello{}, 48},
		{Create{}, 16},
		{Destroy{}, 16},
		{CreateQP{}, 40},
		{ModifyQP{}, 80},
		{Connect{}, 16},
		{FailQP{}, 32},
		{CreateRegion{}, 16},
		{Register{}, 48},
		{Resolve{}, 16},
		{Attach{}, 32},
		{Raise{}, 16},
		{Group{}, 32},
		{CMCall{}, 16},
		{CMBind{}, 40},
		{CMResolve{}, 64},
		{CMAnswer{}, 228},
	} {
		if got := requestHeader + binary.Size(tc.body); got != tc.size {
			t.Errorf("%T has %d bytes, expected %d", tc.body, got, tc.size)
		}
	}
	for _, tc := range []struct {
		body any
		size int
	}{
		{HelloReply{}, 96},
		{Created{}, 24},
		{CreateQPReply{}, 32},
		{ModifyQPReply{}, 24},
		{ConnectReply{}, 32},
		{RegisterReply{}, 32},
		{ResolveReply{}, 56},
		{AttachReply{}, 24},
		{MembersReply{}, 24},
		{CMBindReply{}, 40},
		{CMResolveReply{}, 64},
		{CMEvent{}, 320},
	} {
		if got := replyHeader + binary.Size(tc.body); got != tc.size {
			t.Errorf("%T has %d bytes, expected %d", tc.body, got, tc.size)
		}
	}
	if binary.Size(Extent{}) != extentBytes || binary.Size(Member{}) != 8 || binary.Size(Event{}) != 8 {
		t.Errorf("an extent has %d bytes, an event %d", binary.Size(Extent{}), binary.Size(Event{}))
	}
}
