// The view code.

export const view = {
  name: "code",
  title: "Source and SASS",
  key: "5",
  create() {
    const body = document.createElement("section");
    return { body, show() {} };
  },
};
