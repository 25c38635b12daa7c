// The check of a match's dice and log by somebody else: node fairness.js < log.ndjson (openapi/fairness.md).
const { createHash, createHmac, createPublicKey, verify } = require("node:crypto");
const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const sorted = (value) =>
  Array.isArray(value) ? value.map(sorted)
  : value && typeof value === "object" ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]))
  : value;
const wrong = (seq, why) => { console.log(`seq ${seq}: ${why}`); process.exit(1); };
function diceFrom(link, message) {
  const key = Buffer.from(link, "hex"), faces = [];
  for (let digest = message; faces.length < 2; ) {
    digest = createHmac("sha256", key).update(digest).digest();
    faces.push(...[...digest].filter((byte) => byte < 252).map((byte) => (byte % 6) + 1));
  }
  return faces.slice(0, 2);
}
let hash = "0".repeat(64), match, last = null, used = 0, rolls = 0, proven = 0, script = [], ended = false;
const entropy = { white: "", black: "" };
require("node:fs").readFileSync(0, "utf8").trim().split("\n").map((line) => JSON.parse(line)).forEach((line, index) => {
  const { at, event, seq, head } = line, number = index + 1;
  if (ended) wrong(number, "something follows the signed head");
  if (head) {
    const key = createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(line.key, "hex").toString("base64url") } });
    const text = `videau head ${head.match} ${head.seq} ${head.hash}`;
    if (!verify(null, Buffer.from(text), key, Buffer.from(line.signature, "hex"))) wrong(number, "signature");
    if (head.match !== match || head.seq !== index || head.hash !== hash) wrong(number, "the head is another log's, or this one is cut");
    return (ended = true);
  }
  hash = sha256(hash + JSON.stringify(sorted({ at, event, seq })));
  if (seq !== number || line.hash !== hash) wrong(number, "hash");
  if (event.kind === "created") [match, last, script] = [event.match, event.commitment ?? null, event.settings.sandbox?.dice ?? []];
  if (event.kind === "joined") entropy[event.color] = event.entropy ?? "";
  if (event.kind === "committed") {
    if (used !== 4096) wrong(seq, "a new commitment before the chain is used up");
    [last, used] = [event.commitment, 0];
  }
  if (event.kind !== "rolled" || (rolls += 1) <= script.length || last === null) return;
  if (!event.link || sha256(Buffer.from(event.link, "hex")) !== last || ++used > 4096) wrong(seq, "link");
  const message = JSON.stringify([match, rolls, entropy.white, entropy.black, event.entropy]);
  if (String(diceFrom((last = event.link), message)) !== String(event.dice)) wrong(seq, "dice");
  proven += 1;
});
console.log(`whole: ${proven} of ${rolls} rolls proven${ended ? ", head signed" : ""}`);
