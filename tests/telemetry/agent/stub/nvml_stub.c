/* A libnvidia-ml.so.1 for tests: eight GPUs with known values, steered by a text file while the agent runs.
 *
 * NVML_STUB_CONTROL names the file. A line is "<gpu|*> <key> <value>"; a later line wins. Keys:
 *   init_error, count, lost, gone, arch, links, gpm, mig, xid, xid_seq, processes
 *   power_mw, energy_mj, util, mem_util, mem_used, mem_reserved, mem_total, temp, sm_mhz, mem_mhz, reasons, pstate
 *   err.<function>   the code a function returns        hang.<function>  seconds a call of it blocks
 *   fi.<id>[.<scope>]  value of a field                 fi_err.<id>      its return code (NOT_SUPPORTED unless set)
 *   no_batch   field values are refused when more than one is asked for
 *   nv.<link>.<counter>  NVLink error counters 0..4            ecc.<error>.<span>.<location>  ECC error counters
 *   renumber   indices are shifted by so many    pid, process_bytes, process_gi, fabric_health, requested_mw, default_mw, slowdown
 * With -DOLD_DRIVER everything newer than the 470 series is not exported and not answered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>
#include <stdint.h>

typedef unsigned int u32;
typedef unsigned long long u64;
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SIZE = 7, TIMEOUT = 10, LOST = 15, GONE = 28,
       VERSION_MISMATCH = 25 };
#define GPUS 8
#define INSTANCES 2

struct device { int gpu; int instance; };          /* instance -1: the whole board */
static struct device boards[GPUS], instances[GPUS][INSTANCES];
static int initialised;

/* ---- the control file ---- */
struct entry { int gpu; char key[48]; double value; };
static struct entry table[1024];
static int entries;
static struct timespec read_mtime;
static u64 checked_ms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static u64 now_ms(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (u64)t.tv_sec * 1000 + t.tv_nsec / 1000000; }

static void reread(void) {
    const char *path = getenv("NVML_STUB_CONTROL");
    struct stat st;
    if (!path || now_ms() - checked_ms < 20) return;
    checked_ms = now_ms();
    if (stat(path, &st) || (st.st_mtim.tv_sec == read_mtime.tv_sec && st.st_mtim.tv_nsec == read_mtime.tv_nsec)) return;
    read_mtime = st.st_mtim;
    FILE *f = fopen(path, "r");
    if (!f) return;
    char line[160], who[16];
    entries = 0;
    while (entries < 1024 && fgets(line, sizeof line, f)) {
        struct entry *e = &table[entries];
        if (sscanf(line, "%15s %47s %lf", who, e->key, &e->value) != 3) continue;
        e->gpu = who[0] == '*' ? -1 : atoi(who);
        entries++;
    }
    fclose(f);
}

static int find(int gpu, const char *key, double *out) {
    int found = 0;
    pthread_mutex_lock(&lock);
    reread();
    for (int i = entries - 1; i >= 0 && !found; i--)
        if ((table[i].gpu == gpu || table[i].gpu == -1) && !strcmp(table[i].key, key)) { *out = table[i].value; found = 1; }
    pthread_mutex_unlock(&lock);
    return found;
}

static double get(int gpu, const char *key, double otherwise) { double v; return find(gpu, key, &v) ? v : otherwise; }

static int enter(const struct device *d, const char *function) {
    char key[80];
    int gpu = d ? d->gpu : -1;
    snprintf(key, sizeof key, "hang.%s", function);
    double seconds = get(gpu, key, 0);
    if (seconds > 0) usleep((useconds_t)(seconds * 1e6));
    if (!initialised) return UNINITIALIZED;
    if (d && get(gpu, "lost", 0)) return LOST;
    if (d && get(gpu, "gone", 0)) return GONE;
    snprintf(key, sizeof key, "err.%s", function);
    return (int)get(gpu, key, OK);
}
#define ENTER(d) do { int rc_ = enter(d, __func__); if (rc_) return rc_; } while (0)
#define BOARD_ONLY(d) do { if ((d)->instance >= 0) return NOT_SUPPORTED; } while (0)

/* ---- life ---- */
int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    int rc = (int)get(-1, "init_error", OK);
    if (rc) return rc;
    for (int g = 0; g < GPUS; g++) {
        boards[g].gpu = g; boards[g].instance = -1;
        for (int i = 0; i < INSTANCES; i++) { instances[g][i].gpu = g; instances[g][i].instance = i; }
    }
    initialised++;
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
/* The last shutdown leaves a file beside the control file, so that a test sees that the driver was let go of. */
int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    const char *control = getenv("NVML_STUB_CONTROL");
    char path[4096];
    if (!--initialised && control && snprintf(path, sizeof path, "%s.released", control) < (int)sizeof path) {
        FILE *f = fopen(path, "w");
        if (f) fclose(f);
    }
    return OK;
}
const char *nvmlErrorString(int code) { (void)code; return "stub error"; }
int nvmlDeviceGetCount_v2(u32 *n) { ENTER(NULL); *n = (u32)get(-1, "count", GPUS); return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, struct device **d) {
    if (i >= GPUS) return INVALID;
    struct device *found = &boards[(i + (u32)get(-1, "renumber", 0)) % GPUS];   /* as a reboot may */
    ENTER(found);
    *d = found;
    return OK;
}
static void uuid_of(const struct device *d, char *out, u32 n) {
    if (d->instance < 0) snprintf(out, n, "GPU-00000000-0000-0000-0000-%012d", d->gpu);
    else snprintf(out, n, "MIG-00000000-0000-0000-%04d-%012d", d->instance, d->gpu);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **d) {
    char own[96];
    if (!initialised) return UNINITIALIZED;
    for (int g = 0; g < GPUS; g++) {
        uuid_of(&boards[g], own, sizeof own);
        if (!strcmp(own, uuid)) { ENTER(&boards[g]); *d = &boards[g]; return OK; }
    }
    return NOT_FOUND;
}

/* ---- identity ---- */
#define TEXT(name, format, value) \
    int name(struct device *d, char *out, u32 n) { ENTER(d); snprintf(out, n, format, value); return OK; }
int nvmlDeviceGetUUID(struct device *d, char *out, u32 n) { ENTER(d); uuid_of(d, out, n); return OK; }
TEXT(nvmlDeviceGetSerial, "165000%04d", d->gpu)
TEXT(nvmlDeviceGetName, "%s", d->instance < 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA H100 80GB HBM3 MIG 1g.10gb")
TEXT(nvmlDeviceGetBoardPartNumber, "900-2G520-00%02d-000", d->gpu)
TEXT(nvmlDeviceGetVbiosVersion, "96.00.74.00.%02d", d->gpu)
TEXT(nvmlDeviceGetInforomImageVersion, "G520.0200.00.%02d", d->gpu)
int nvmlDeviceGetGspFirmwareVersion(struct device *d, char *out) { ENTER(d); strcpy(out, "580.65.06"); return OK; }
int nvmlSystemGetDriverVersion(char *out, u32 n) { ENTER(NULL); snprintf(out, n, "580.65.06"); return OK; }
int nvmlSystemGetNVMLVersion(char *out, u32 n) { ENTER(NULL); snprintf(out, n, "13.580.65.06"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *v) { ENTER(NULL); *v = 13000; return OK; }
int nvmlDeviceGetMinorNumber(struct device *d, u32 *v) { ENTER(d); *v = d->gpu; return OK; }
int nvmlDeviceGetModuleId(struct device *d, u32 *v) { ENTER(d); *v = d->gpu + 1; return OK; }
int nvmlDeviceGetIndex(struct device *d, u32 *v) { ENTER(d); *v = (d->gpu + GPUS - (u32)get(-1, "renumber", 0)) % GPUS; return OK; }
int nvmlDeviceGetArchitecture(struct device *d, u32 *v) { ENTER(d); *v = (u32)get(d->gpu, "arch", 9); return OK; }
int nvmlDeviceGetCudaComputeCapability(struct device *d, int *a, int *b) { ENTER(d); *a = 9; *b = 0; return OK; }
struct pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *p) {
    ENTER(d);
    memset(p, 0, sizeof *p);
    p->bus = 0x10 + d->gpu; p->id = 0x233010de;
    snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", p->bus);
    return OK;
}
int nvmlDeviceGetMaxClockInfo(struct device *d, u32 kind, u32 *v) { ENTER(d); *v = kind == 2 ? 2619 : 1980; return OK; }

/* ---- the fast signals ---- */
#define U32(name, key, otherwise) \
    int name(struct device *d, u32 *v) { ENTER(d); BOARD_ONLY(d); *v = (u32)get(d->gpu, key, otherwise); return OK; }
U32(nvmlDeviceGetPowerUsage, "power_mw", 300000 + 1000 * d->gpu)
U32(nvmlDeviceGetEnforcedPowerLimit, "limit_mw", 700000)
U32(nvmlDeviceGetPowerManagementLimit, "requested_mw", 700000)
U32(nvmlDeviceGetPowerManagementDefaultLimit, "default_mw", 700000)
int nvmlDeviceGetPowerManagementLimitConstraints(struct device *d, u32 *low, u32 *high) {
    ENTER(d); BOARD_ONLY(d); *low = 200000; *high = 700000; return OK;
}
/* Hopper gives a margin instead; "slowdown" makes a board of before. */
int nvmlDeviceGetTemperatureThreshold(struct device *d, u32 which, u32 *v) {
    ENTER(d); BOARD_ONLY(d);
    double slowdown = get(d->gpu, "slowdown", 0);
    if (!slowdown) return NOT_SUPPORTED;
    *v = (u32)slowdown + (which == 0 ? 5 : 0);
    return OK;
}
U32(nvmlDeviceGetPerformanceState, "pstate", 0)
int nvmlDeviceGetTotalEnergyConsumption(struct device *d, u64 *v) {
    ENTER(d); BOARD_ONLY(d); *v = (u64)get(d->gpu, "energy_mj", 1000000.0 * (d->gpu + 1)); return OK;
}
int nvmlDeviceGetUtilizationRates(struct device *d, u32 *v) {
    ENTER(d); BOARD_ONLY(d);
    if (get(d->gpu, "mig", 0)) return NOT_SUPPORTED;
    v[0] = (u32)get(d->gpu, "util", 50 + d->gpu); v[1] = (u32)get(d->gpu, "mem_util", 20 + d->gpu);
    return OK;
}
static u64 mem_total(struct device *d) { return (u64)get(d->gpu, "mem_total", 85520809984.0) / (d->instance < 0 ? 1 : 8); }
static u64 mem_used(struct device *d) { return (u64)get(d->gpu, "mem_used", 1073741824.0 * (d->gpu + 1)) / (d->instance < 0 ? 1 : 4); }
static u64 mem_reserved(struct device *d) { return (u64)get(d->gpu, "mem_reserved", 524288000) / (d->instance < 0 ? 1 : 8); }
int nvmlDeviceGetMemoryInfo(struct device *d, u64 *v) {
    ENTER(d);
    v[0] = mem_total(d); v[1] = mem_total(d) - mem_used(d) - mem_reserved(d); v[2] = mem_used(d) + mem_reserved(d);
    return OK;
}
int nvmlDeviceGetTemperature(struct device *d, u32 sensor, u32 *v) {
    (void)sensor; ENTER(d); BOARD_ONLY(d); *v = (u32)get(d->gpu, "temp", 40 + d->gpu); return OK;
}
static u32 clock_of(struct device *d, u32 kind) {
    return kind == 2 ? (u32)get(d->gpu, "mem_mhz", 2619) : (u32)get(d->gpu, "sm_mhz", 1980 - 10 * d->gpu);
}
int nvmlDeviceGetClockInfo(struct device *d, u32 kind, u32 *v) { ENTER(d); BOARD_ONLY(d); *v = clock_of(d, kind); return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, u64 *v) {
    ENTER(d); BOARD_ONLY(d); *v = (u64)get(d->gpu, "reasons", 4); return OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(struct device *d, u32 *v) { ENTER(d); BOARD_ONLY(d); *v = (u32)get(d->gpu, "pcie_gen", 5); return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(struct device *d, u32 *v) { ENTER(d); BOARD_ONLY(d); *v = (u32)get(d->gpu, "pcie_width", 16); return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(struct device *d, u32 *v) { ENTER(d); *v = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(struct device *d, u32 *v) { ENTER(d); *v = 16; return OK; }

/* ---- field values ---- */
struct field { u32 id, scope; long long timestamp, latency; u32 type; int rc; union { double d; u64 u; } value; };
static const struct { u32 id; u32 type; double value; } fields[] = {
    {3, 3, 5}, {4, 3, 0}, {5, 3, 12}, {6, 3, 1}, {82, 1, 55}, {83, 3, 1000000}, {91, 1, 18}, {94, 1, 2}, {95, 1, 0},
    {74, 3, 7000000}, {76, 3, 0}, {142, 1, 3}, {143, 1, 1}, {144, 1, 0}, {145, 1, 0},
    {138, 3, 2048}, {139, 3, 4096},
#ifndef OLD_DRIVER
    {169, 1, 4}, {173, 1, 6}, {174, 1, 0}, {175, 1, 0}, {176, 1, 0}, {177, 1, 0}, {178, 1, 0}, {179, 1, 0}, {180, 1, 0},
    {181, 1, 0}, {182, 1, 0}, {183, 1, 0}, {185, 1, 300000}, {186, 1, 310000}, {190, 1, 700000}, {191, 3, 1000000},
    {197, 3, 111000}, {198, 3, 222000}, {230, 1, 0}, {269, 3, 9000}, {270, 3, 0}, {271, 3, 0},
    {164, 1, 26562}, {165, 1, 1}, {166, 1, 6},
#endif
};
static void answer(struct device *d, struct field *f) {
    char key[48];
    f->rc = NOT_SUPPORTED;
    f->timestamp = (long long)time(NULL) * 1000000; f->latency = 3;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].id == f->id) {
            double v = fields[i].value;
            if (f->id == 83 || f->id == 191) v = get(d->gpu, "energy_mj", 1000000.0 * (d->gpu + 1));
            if (f->id == 185) v = get(d->gpu, "power_mw", 300000 + 1000 * d->gpu);
            if (f->id == 186) v = get(d->gpu, "power_mw", 300000 + 1000 * d->gpu) + 10000;
            if (f->id == 91) v = get(d->gpu, "links", 18);
            if ((f->id == 185 || f->id == 186 || f->id == 190) && f->scope != 0) continue;
            f->rc = OK; f->type = fields[i].type; f->value.u = (u64)v;
        }
    double v;
    snprintf(key, sizeof key, "fi.%u", f->id);
    int found = find(d->gpu, key, &v);
    snprintf(key, sizeof key, "fi.%u.%u", f->id, f->scope);
    if (find(d->gpu, key, &v) || found) { f->rc = OK; f->type = 3; f->value.u = (u64)v; }
    snprintf(key, sizeof key, "fi_err.%u", f->id);
    if (find(d->gpu, key, &v)) f->rc = (int)v;
}
int nvmlDeviceGetFieldValues(struct device *d, int n, struct field *f) {
    ENTER(d); BOARD_ONLY(d);
    if (n > 1 && get(d->gpu, "no_batch", 0)) return INVALID;
    for (int i = 0; i < n; i++) answer(d, &f[i]);
    return OK;
}

/* ---- health, links, processes, MIG ---- */
int nvmlDeviceGetNvLinkErrorCounter(struct device *d, u32 link, u32 counter, u64 *v) {
    ENTER(d); BOARD_ONLY(d);
    char key[48];
    if (link >= (u32)get(d->gpu, "links", 18)) return INVALID;
    if ((u32)get(d->gpu, "arch", 9) != 9) return NOT_SUPPORTED;
    snprintf(key, sizeof key, "nv.%u.%u", link, counter);
    *v = (u64)get(d->gpu, key, 0);
    return OK;
}
/* ecc.<corrected 0|uncorrected 1>.<volatile 0|aggregate 1>.<location> */
int nvmlDeviceGetMemoryErrorCounter(struct device *d, u32 error, u32 counter, u32 location, u64 *v) {
    ENTER(d); BOARD_ONLY(d);
    char key[48];
    snprintf(key, sizeof key, "ecc.%u.%u.%u", error, counter, location);
    *v = (u64)get(d->gpu, key, 0);
    return OK;
}
int nvmlDeviceGetMigMode(struct device *d, u32 *now, u32 *next) { ENTER(d); *now = *next = (u32)get(d->gpu, "mig", 0); return OK; }
int nvmlDeviceGetEccMode(struct device *d, u32 *now, u32 *next) { ENTER(d); *now = *next = 1; return OK; }
int nvmlDeviceGetNvLinkState(struct device *d, u32 link, u32 *up) {
    ENTER(d);
    char key[48];
    if (link >= (u32)get(d->gpu, "links", 18)) return INVALID;
    snprintf(key, sizeof key, "up.%u", link);
    *up = (u32)get(d->gpu, key, 1);
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(struct device *d, u32 *n) { ENTER(d); *n = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, u32 i, struct device **out) {
    ENTER(d);
    if (!get(d->gpu, "mig", 0)) return NOT_SUPPORTED;
    if (i >= 2 * INSTANCES || i % 2) return NOT_FOUND;     /* holes, as on the real thing */
    *out = &instances[d->gpu][i / 2];
    return OK;
}
int nvmlDeviceGetGpuInstanceId(struct device *d, u32 *v) { ENTER(d); if (d->instance < 0) return INVALID; *v = 7 + d->instance; return OK; }
int nvmlDeviceGetComputeInstanceId(struct device *d, u32 *v) { ENTER(d); if (d->instance < 0) return INVALID; *v = 0; return OK; }

/* ---- events ---- */
static int seen_seq[GPUS];
static int event_set;
int nvmlEventSetCreate(int **set) { ENTER(NULL); *set = &event_set; return OK; }
int nvmlEventSetFree(int *set) { (void)set; return OK; }
int nvmlDeviceGetSupportedEventTypes(struct device *d, u64 *v) { ENTER(d); *v = 0x8 | 0x2; return OK; }
int nvmlDeviceRegisterEvents(struct device *d, u64 types, int *set) {
    (void)types; (void)set; ENTER(d); seen_seq[d->gpu] = (int)get(d->gpu, "xid_seq", 0); return OK;
}
struct event { struct device *device; u64 type, data; u32 gi, ci; };
int nvmlEventSetWait_v2(int *set, struct event *e, u32 ms) {
    (void)set;
    ENTER(NULL);
    for (u64 until = now_ms() + ms; now_ms() < until; usleep(30000))
        for (int g = 0; g < GPUS; g++) {
            int seq = (int)get(g, "xid_seq", 0);
            if (seq <= seen_seq[g]) continue;
            seen_seq[g] = seq;
            e->device = &boards[g]; e->type = 0x8; e->data = (u64)get(g, "xid", 79); e->gi = e->ci = 0xFFFFFFFF;
            return OK;
        }
    return TIMEOUT;
}

#ifndef OLD_DRIVER
struct memory2 { u32 version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory2 *m) {
    ENTER(d);
    if (m->version != 0x02000028) return VERSION_MISMATCH;
    m->total = mem_total(d); m->reserved = mem_reserved(d); m->used = mem_used(d); m->free = m->total - m->reserved - m->used;
    return OK;
}
struct temperature { u32 version, sensor; int value; };
int nvmlDeviceGetTemperatureV(struct device *d, struct temperature *t) {
    ENTER(d); BOARD_ONLY(d);
    if (t->version != 0x100000C) return VERSION_MISMATCH;
    t->value = (int)get(d->gpu, "temp", 40 + d->gpu);
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, u64 *v) {
    ENTER(d); BOARD_ONLY(d); *v = (u64)get(d->gpu, "reasons", 4); return OK;
}
struct fabric { u32 version; unsigned char cluster[16]; int status; u32 clique, state, health; unsigned char summary; };
int nvmlDeviceGetGpuFabricInfoV(struct device *d, struct fabric *f) {
    ENTER(d); BOARD_ONLY(d);
    if (f->version != 0x3000028 && f->version != 0x2000024) return VERSION_MISMATCH;
    memset(f->cluster, 0xab, 16); f->status = OK; f->clique = 1; f->state = (u32)get(d->gpu, "fabric", 3); f->health = (u32)get(d->gpu, "fabric_health", 0);
    return OK;
}
struct platform { u32 version; char ib[16], chassis[16]; char slot, tray, host, peer, module; };
int nvmlDeviceGetPlatformInfo(struct device *d, struct platform *p) {
    ENTER(d);
    if ((u32)get(d->gpu, "arch", 9) < 10) return NOT_SUPPORTED;
    memcpy(p->chassis, "CHASSIS-0001\0\0\0\0", 16);
    p->slot = 12; p->tray = 3; p->host = 1; p->peer = 1; p->module = (char)(d->gpu + 1);
    return OK;
}
struct process { u32 pid; u64 memory; u32 gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, u32 *n, struct process *p) {
    ENTER(d);
    u32 count = (u32)get(d->gpu, "processes", d->gpu % 3), room = *n;
    *n = count;
    if (!count) return OK;
    if (room < count) return SIZE;
    for (u32 i = 0; i < count; i++) { p[i].pid = (u32)get(d->gpu, "pid", 100) + i; p[i].memory = (u64)get(d->gpu, "process_bytes", 1 << 20); p[i].gi = p[i].ci = (u32)get(d->gpu, "process_gi", 0xFFFFFFFF); }
    return OK;
}
struct gpm_sample { int gpu; int instance; u64 taken; };
struct support { u32 version, supported; };
int nvmlGpmQueryDeviceSupport(struct device *d, struct support *s) { ENTER(d); s->supported = (u32)get(d->gpu, "gpm", 1); return OK; }
int nvmlGpmSampleAlloc(struct gpm_sample **s) { *s = calloc(1, sizeof **s); return OK; }
int nvmlGpmSampleFree(struct gpm_sample *s) { free(s); return OK; }
int nvmlGpmSampleGet(struct device *d, struct gpm_sample *s) { ENTER(d); s->gpu = d->gpu; s->instance = -1; s->taken = now_ms(); return OK; }
int nvmlGpmMigSampleGet(struct device *d, u32 gi, struct gpm_sample *s) {
    ENTER(d); s->gpu = d->gpu; s->instance = (int)gi; s->taken = now_ms(); return OK;
}
struct metric { u32 id; int rc; double value; const char *text[3]; };
struct metrics { u32 version, count; struct gpm_sample *first, *second; struct metric metric[477]; };
int nvmlGpmMetricsGet(struct metrics *m) {
    if (m->version != 1) return VERSION_MISMATCH;
    if (!m->first->taken || m->second->taken < m->first->taken) return INVALID;    /* samples in the wrong order */
    for (u32 i = 0; i < m->count; i++) {
        int gpu = m->first->gpu;
        m->metric[i].rc = m->metric[i].id <= 61 ? OK : NOT_SUPPORTED;
        m->metric[i].value = m->metric[i].id + 0.5 * gpu + (m->first->instance >= 0 ? 50 : 0);
    }
    return OK;
}
#endif
