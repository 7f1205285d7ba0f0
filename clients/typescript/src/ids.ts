// Ids: a UUID is taken as it is, every other string is a name, and each name has one UUID: the same as in memoryd's other clients.

/** Version 5 of RFC 9562 in this namespace, a random constant. */
const NAMESPACE = "9b1f2c865a1e4c1b8f0e2d7c5e43a6b0";
const LONGEST_NAME = 10_000;
const LOOKS_LIKE_A_UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const IN_ITS_SHAPE = /^[^-]{8}(-[^-]{4}){3}-[^-]{12}$/u;

/** An error of the client: its arguments are wrong, or memory is off. */
export class Refused extends Error {
  override readonly name = "Refused";
}

/**
 * The UUID of a name. A string that is written as a UUID (8-4-4-4-12) is that UUID.
 *
 * Throws Refused if the name is empty, has more than 10,000 characters, is not Unicode text, or is almost a UUID.
 */
export async function idOf(name: string): Promise<string> {
  if (typeof name !== "string") throw new Refused("An id is a UUID or a string.");
  if (LOOKS_LIKE_A_UUID.test(name)) return name.toLowerCase();
  const length = [...name].length;
  if (length === 0 || length > LONGEST_NAME) throw new Refused("An id that is a name has 1 to 10,000 characters.");
  if (/\p{Cs}/u.test(name)) throw new Refused("An id has a lone surrogate (U+D800 to U+DFFF), so it is no text.");
  if (almostAUuid(name)) {
    throw new Refused(
      "An id is almost a UUID. Write all 32 hex digits as 8-4-4-4-12, with nothing around them; " +
        "a name has to look different.",
    );
  }
  const space = Uint8Array.from(NAMESPACE.match(/../g)!, (byte) => parseInt(byte, 16));
  const digest = await crypto.subtle.digest("SHA-1", new Uint8Array([...space, ...new TextEncoder().encode(name)]));
  const bytes = new Uint8Array(digest, 0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x50;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Whether it was probably meant as a UUID: as a name it would silently be the id of somebody else. */
function almostAUuid(name: string): boolean {
  const bare = name.trim().toLowerCase().replace(/^urn:uuid:/, "").replace(/^[{}]+|[{}]+$/g, "");
  if (!/^[0-9a-f-]*$/.test(bare)) return IN_ITS_SHAPE.test(bare);
  const hyphens = bare.split("-").length - 1;
  const digits = bare.length - hyphens;
  return digits === 32 || (digits >= 20 && hyphens === 4);
}
