// The view flame.

export const view = {
  name: "flame",
  title: "Flame graph",
  key: "2",
  create() {
    const body = document.createElement("section");
    return { body, show() {} };
  },
};
