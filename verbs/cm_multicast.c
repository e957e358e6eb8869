#include "cm.h"

#define MULTICAST 0xffffff /* number of all queue pairs of a group */
#define MULTICAST_LID 0xc001

struct cm_group {
	struct cm_group *next;
	uint32_t number;         /* that the event of this group has */
	struct bee_cm_address address;
	union ibv_gid gid;
	void *user;
	int send_only;
	int attached;
};

static struct lock groups_lock; /* guards the groups of all identifiers */
static uint32_t last;

/* Groups of IP have these GIDs in librdmacm's own space of ports, UDP, too. */
static void gid_of(const struct bee_cm_address *a, union ibv_gid *gid)
{
	static const uint8_t v4[16] = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff}, v6[16] = {0xff, 0x12, 0x60, 0x01, 0xff, 0xff};

	memcpy(gid, a->family == 4 ? v4 : v6, sizeof v4);
	if (a->family == 4) {
		memcpy(gid->raw + 12, a->ip, 4);
		gid->raw[12] &= 0x0f;
	} else {
		memcpy(gid->raw + 6, a->ip + 6, 10);
	}
}

static int same(const struct bee_cm_address *a, const struct bee_cm_address *b)
{
	for (size_t i = 0; i < sizeof a->ip; i++)
		if (a->ip[i] != b->ip[i])
			return 0;
	return a->family == b->family;
}

static struct cm_group *withdraw(struct cm_id *id, uint32_t number, const struct bee_cm_address *a)
{
	struct cm_group **link, *found;

	lock(&groups_lock);
	for (link = &id->groups; *link && (a ? !same(a, &(*link)->address) : (*link)->number != number); link = &(*link)->next)
		;
	found = *link;
	if (found)
		*link = found->next;
	unlock(&groups_lock);
	return found;
}

static int join(struct rdma_cm_id *x, struct sockaddr *a, void *user, int send_only)
{
	struct cm_id *id = (struct cm_id *)x;
	struct cm_group *g = calloc(1, sizeof *g);
	uint32_t number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	int error;

	if (!g)
		return cm_failed(ENOMEM);
	g->number = number;
	g->user = user;
	g->send_only = send_only;
	error = cm_read_address(a, &g->address);
	if (error) {
		free(g);
		return cm_failed(error);
	}
	g->address.port = 0;
	gid_of(&g->address, &g->gid);
	lock(&groups_lock);
	g->next = id->groups;
	id->groups = g;
	unlock(&groups_lock);
	error = cm_call(id, BEE_OP_CM_JOIN, number);
	if (error) {
		free(withdraw(id, number, NULL));
		return cm_failed(error);
	}
	return cm_complete(id);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *x, struct sockaddr *a, void *user)
{
	return join(x, a, user, 0);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *x, struct rdma_cm_join_mc_attr_ex *a, void *user)
{
	if (a->comp_mask != (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) || a->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_failed(EINVAL);
	return join(x, a->addr, user, a->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
}

int cm_joined(struct cm_event *e, uint32_t number)
{
	struct cm_id *id = e->id;
	struct ibv_qp *qp = id->id.qp;
	struct cm_group *g;
	int error = 0;

	lock(&groups_lock);
	for (g = id->groups; g && g->number != number; g = g->next)
		;
	if (g) {
		if (qp && !g->send_only)
			error = ibv_attach_mcast(qp, &g->gid, MULTICAST_LID);
		g->attached = qp && !g->send_only && !error;
		e->event.event = error ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN;
		e->event.status = -error;
		e->event.param.ud = (struct rdma_ud_param){
			.private_data = g->user, .qp_num = MULTICAST, .qkey = RDMA_UDP_QKEY,
			.ah_attr = {.dlid = MULTICAST_LID, .port_num = 1, .is_global = 1, .grh = {.dgid = g->gid, .hop_limit = 1}},
		};
	}
	unlock(&groups_lock);
	return g != NULL;
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *x, struct sockaddr *a)
{
	struct bee_cm_address address;
	struct cm_group *g;
	int error = cm_read_address(a, &address);

	if (error)
		return cm_failed(error);
	g = withdraw((struct cm_id *)x, 0, &address);
	if (!g)
		return cm_failed(EADDRNOTAVAIL);
	if (g->attached && x->qp)
		error = ibv_detach_mcast(x->qp, &g->gid, MULTICAST_LID);
	free(g);
	return cm_failed(error);
}

void cm_free_groups(struct cm_id *id)
{
	for (struct cm_group *g = id->groups, *next; g; g = next) {
		next = g->next;
		free(g);
	}
}
